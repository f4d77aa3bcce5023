// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/peer.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <utility>

#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// The credit for short messages not yet received, in bytes; the cost of each besides its data.
constexpr std::size_t kCredit = 4 << 20;
constexpr std::size_t kCost = 64;

/// The part of the credit that messages of more than kLeastMapped bytes leave to shorter ones, so
/// that these are sent eagerly however many longer ones wait. (Less than what return_credit()
/// leaves.)
constexpr std::size_t kKeptForOthers = 1 << 20;

/// How many messages of a peer may wait for a receive. A program that exceeds this is wrong, and
/// more memory would not help it.
constexpr std::size_t kMostUnexpected = 1 << 17;

/// Longer data, in bytes, is read where both ranks map it. That takes one copy, but the receiver
/// has to come first.
constexpr std::size_t kLeastMapped = std::size_t{64} << 10;

/// From this size on, a program's memory may have a huge page wherever it begins.
constexpr std::size_t kTwoHugePages = std::size_t{4} << 20;

/// Whether the kernel gives huge pages to all long arrays of programs.
bool are_pages_huge() {
  static const bool are_huge = [] {
    std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string text;
    return std::getline(file, text) && text.find("[always]") != text.npos;
  }();
  return are_huge;
}

/// With more bytes memcpy() works in a way that is slower from another processor's cache.
constexpr std::size_t kCopiedAtOnce = std::size_t{256} << 10;

/// How many bytes are read before other messages have their turn and the sender is notified.
constexpr std::size_t kReadPerTurn = std::size_t{1} << 20;

std::size_t cost_of(const Frame& frame) {
  return frame.is_short != 0 ? frame.follow() + kCost : 0;
}

}  // namespace

std::size_t Message::bytes() const {
  return transfer.count * size_of(transfer.type);
}

std::string describe(const Transfer& transfer, int peer) {
  return std::string(transfer.sends ? "send " : "recv ") + name(transfer.type) + "[" +
         std::to_string(transfer.count) + "]" + (transfer.sends ? " to rank " : " from rank ") +
         std::to_string(peer) + ", tag " + std::to_string(transfer.tag);
}

CpuPeer::CpuPeer(boost::asio::io_context& context, const RunLocked& run_locked,
                 boost::asio::ip::tcp::endpoint to, const Frame& first, const MemoryMark& own,
                 int own_rank, std::pmr::memory_resource& memory, Events events)
    : to_(std::move(to)),
      first_(first),
      own_(own),
      own_rank_(own_rank),
      events_(std::move(events)),
      run_locked_(run_locked),
      connection_(context, run_locked,
                  [this](const std::string& reason) { on_send_ended(reason); }),
      silence_(context),
      credit_(kCredit),
      announced_(&memory),
      unexpected_(&memory),
      posted_(&memory),
      incoming_(&memory) {}

void CpuPeer::begin(MessageAt message) {
  open();
  begin_use();
  message->transfer.sends ? send(message) : receive(message);
}

void CpuPeer::begin_use() {
  if (!std::exchange(is_used_, true)) events_.may_use_rings();
}

void CpuPeer::open() {
  if (!connection_.is_open()) connection_.open(to_, first_);
}

bool CpuPeer::is_short(const Transfer& transfer) const {
  const std::size_t bytes = transfer.count * size_of(transfer.type);
  if (bytes <= kLeastMapped) return true;
  return bytes <= Frame::kShort && !(heap_ && heap_->position_of(transfer.data, bytes) != 0);
}

/// The frame of the next message.
Frame CpuPeer::frame_of(const Transfer& transfer) const {
  Frame frame{.kind = Frame::Kind::message,
              .type = static_cast<std::uint8_t>(transfer.type),
              .is_short = static_cast<std::uint8_t>(is_short(transfer)),
              .tag = transfer.tag,
              .number = sent_ + 1,
              .count = transfer.count};
  const std::size_t kept = frame.follow() > kLeastMapped ? kKeptForOthers : 0;
  if (cost_of(frame) + kept > credit_) frame.is_short = 0;
  return frame;
}

bool CpuPeer::send_now(const Transfer& transfer) {
  const Frame frame = frame_of(transfer);
  if (lost_ || frame.is_short == 0) return false;
  if (!connection_.send_now(frame, static_cast<const char*>(transfer.data))) return false;
  ++sent_;
  credit_ -= cost_of(frame);
  return true;
}

CpuPeer::Next CpuPeer::receive_now(const Transfer& transfer) {
  const bool is_first = !posted_.contains(transfer.tag) && !unexpected_.contains(transfer.tag);
  const bool has_ring = from_ && from_->has_ring();
  if (!is_first || !has_ring || lost_ || received_bye_) return Next::other;
  const auto frame = from_->peek_ring();
  if (!frame) return Next::late;
  const bool is_it = frame->is_sound() && frame->kind == Frame::Kind::message &&
                     frame->is_short != 0 && frame->tag == transfer.tag &&
                     static_cast<DataType>(frame->type) == transfer.type &&
                     frame->count == transfer.count && frame->number == received_ + 1;
  if (!is_it) return Next::other;
  if (!from_->take_peeked(*frame, static_cast<char*>(transfer.data))) return Next::other;
  ++received_;
  return_credit(cost_of(*frame));
  return Next::received;
}

void CpuPeer::send(MessageAt message) {
  if (lost_) return events_.lost(*lost_);
  Frame frame = frame_of(message->transfer);
  ++sent_;
  if (frame.is_short == 0) {
    announced_.emplace(frame.number, message);
    const std::uint64_t shared = heap_ ? heap_->position_of(message->data(), message->bytes()) : 0;
    if (connection_.is_in_ring() && own_ && (shared != 0 || is_read_sooner(*message))) {
      frame.has_place = 1;
      message->place = own_.place_of(message->data());
      message->place.shared = shared;
    }
    connection_.send(frame, reinterpret_cast<const char*>(&message->place));
    return fail_unmatched_after_bye();
  }
  credit_ -= cost_of(frame);
  connection_.send(frame, message->data(), [this, message] { events_.done(message); });
}

/// Whether the kernel reads a message sooner than the ring moves it. The kernel's copy, which has
/// to look up each page, beats the ring's two copies, which both ranks make at once, but not with
/// pages of 4 KiB. One page stands for all.
bool CpuPeer::is_read_sooner(const Message& message) const {
  const std::size_t bytes = message.bytes();
  const auto is_huge = own_.is_in_huge_page(message.data() + bytes / 2);
  return is_huge.value_or(bytes >= kTwoHugePages && are_pages_huge());
}

void CpuPeer::receive(MessageAt message) {
  const std::int32_t tag = message->transfer.tag;
  const auto first = unexpected_.lower_bound(tag);
  if (first == unexpected_.end() || first->first != tag) {
    posted_.emplace(tag, message);
    if (lost_ && !received_bye_) return events_.lost(*lost_);
    return fail_unmatched_after_bye();
  }
  const Unexpected unexpected = std::move(first->second);
  unexpected_.erase(first);
  unexpected_cost_ -= cost_of(unexpected.frame);
  match(message, unexpected.frame, unexpected.data.data());
}

void CpuPeer::match(MessageAt message, const Frame& frame, const char* data) {
  const Transfer& transfer = message->transfer;
  if (static_cast<DataType>(frame.type) != transfer.type || frame.count != transfer.count) {
    const Transfer theirs{
        .tag = frame.tag, .type = static_cast<DataType>(frame.type), .count = frame.count};
    return events_.mismatched(message, describe(theirs, own_rank_));
  }
  if (frame.is_short == 0) {
    if (lost_) return events_.lost(*lost_);
    MemoryPlace place;
    if (frame.has_place != 0) std::memcpy(&place, data, sizeof(place));
    const bool is_mapped = heap_ && place.shared != 0;
    const bool may_read = frame.has_place != 0 && (reads_memory_ || is_mapped);
    if (!may_read) return clear_to_send(frame.number, message);
    readings_.push_back({frame.number, message, place});
    message->last_progress = std::chrono::steady_clock::now();
    return events_.readable();
  }
  if (frame.follow() > 0) std::memcpy(message->data(), data, frame.follow());
  return_credit(cost_of(frame));
  events_.done(message);
}

void CpuPeer::clear_to_send(std::uint64_t number, MessageAt message) {
  incoming_.emplace(number, message);
  message->moved = 0;
  message->last_progress = std::chrono::steady_clock::now();
  connection_.send({.kind = Frame::Kind::clear_to_send, .number = number});
}

/// If the peer is gone or has given up, nothing follows clear_to_send either; the end of its
/// connection says so.
bool CpuPeer::read_memory() {
  if (readings_.empty()) return false;
  const auto [number, message, place] = readings_.front();
  const std::size_t bytes = std::min(message->bytes() - message->moved, kReadPerTurn);
  if (!read_piece(readings_.front(), {message->data() + message->moved, bytes})) {
    readings_.pop_front();
    reads_memory_ = is_marked(place, first_.number);
    clear_to_send(number, message);
    return true;
  }
  connection_.send({.kind = Frame::Kind::taken, .number = number, .count = bytes});
  if (message->moved + bytes == message->bytes()) readings_.pop_front();
  advance(message, bytes);
  return true;
}

/// Reads in memory that both ranks map, or else through the kernel. If the peer has not given up
/// until afterwards, the data was what it has sent.
bool CpuPeer::read_piece(const Reading& reading, std::span<char> to) const {
  const auto& [number, message, place] = reading;
  const auto from =
      heap_ && place.shared != 0 ? heap_->at(place.shared + message->moved, to.size()) : nullptr;
  if (!from) return internal::read_memory(place, first_.number, message->moved, to);
  for (std::size_t at = 0; at < to.size(); at += kCopiedAtOnce) {
    std::memcpy(to.data() + at, from.get() + at, std::min(kCopiedAtOnce, to.size() - at));
  }
  return !from_->has_writer_given_up();
}

/// Counts `bytes` of a long message as moved; returns whether it is complete.
bool CpuPeer::advance(MessageAt message, std::size_t bytes) {
  message->moved += bytes;
  message->last_progress = std::chrono::steady_clock::now();
  if (message->moved < message->bytes()) return false;
  events_.done(message);
  return true;
}

void CpuPeer::return_credit(std::size_t credit) {
  credit_to_return_ += credit;
  if (credit_to_return_ < kCredit / 2) return;
  connection_.send({.kind = Frame::Kind::credit, .count = std::exchange(credit_to_return_, 0)});
}

/// After the peer's bye, it matches no more messages: fails an unmatched one.
void CpuPeer::fail_unmatched_after_bye() {
  if (!received_bye_) return;
  if (!posted_.empty()) return events_.left(posted_.begin()->second, describe_unexpected());
  if (!announced_.empty()) events_.left(announced_.begin()->second, describe_unexpected());
}

void CpuPeer::offer_ring(ShmRing ring, std::shared_ptr<const ShmHeap> heap) {
  open();
  from_->set_ring(std::move(ring));
  heap_ = std::move(heap);
  reads_memory_ = true;
  connection_.send({.kind = Frame::Kind::ring});
}

void CpuPeer::set_awake(bool awake) {
  if (from_ && from_->has_ring()) from_->set_awake(awake);
  connection_.set_awake(awake);
}

void CpuPeer::send_bye() {
  sends_bye_ = true;
  if (!from_ && !connection_.is_open()) return;  // there were no messages
  open();
  connection_.send({.kind = Frame::Kind::bye}, nullptr, [this] {
    said_bye_ = true;
    events_.said_bye();
  });
}

void CpuPeer::on_connected(std::shared_ptr<RecvConnection> from) {
  from_ = std::move(from);
  was_heard_ = true;
  if (sends_bye_) send_bye();
  events_.may_use_rings();
}

bool CpuPeer::on_frame(const Frame& frame, const char* data) {
  was_heard_ = true;
  switch (frame.kind) {
    case Frame::Kind::message:
      begin_use();
      return on_message(frame, data);
    case Frame::Kind::clear_to_send:
      return on_clear_to_send(frame.number);
    case Frame::Kind::taken:
      return on_taken(frame.number, frame.count);
    case Frame::Kind::credit:
      if (frame.count > kCredit - credit_) return false;
      credit_ += frame.count;
      return true;
    case Frame::Kind::bye:
      received_bye_ = true;
      events_.changed();
      fail_unmatched_after_bye();
      return true;
    case Frame::Kind::ring:
      if (std::exchange(is_offered_, true)) return false;
      events_.may_use_rings();
      return true;
    case Frame::Kind::turn:
      return from_ && from_->turn_to_ring();
    case Frame::Kind::hello:
    case Frame::Kind::data:
    case Frame::Kind::calls:
      break;
  }
  return false;
}

bool CpuPeer::on_message(const Frame& frame, const char* data) {
  if (frame.number != ++received_) return false;
  const auto first = posted_.lower_bound(frame.tag);
  if (first == posted_.end() || first->first != frame.tag) {
    if (cost_of(frame) > kCredit - unexpected_cost_) return false;
    unexpected_cost_ += cost_of(frame);
    unexpected_.emplace(
        frame.tag,
        Unexpected{frame, {data, data + frame.follow(), unexpected_.get_allocator().resource()}});
    if (unexpected_.size() > kMostUnexpected) events_.overflowed(kMostUnexpected, frame.tag);
    events_.changed();
    return true;
  }
  const MessageAt message = first->second;
  posted_.erase(first);
  match(message, frame, data);
  return true;
}

bool CpuPeer::on_clear_to_send(std::uint64_t number) {
  const auto found = announced_.find(number);
  if (found == announced_.end()) return false;
  const MessageAt message = found->second;
  announced_.erase(found);
  connection_.send_pieces(number, message->data(), message->bytes(), [this, message](bool last) {
    message->last_progress = std::chrono::steady_clock::now();
    if (last) events_.done(message);
  });
  return true;
}

std::optional<char*> CpuPeer::destination(std::uint64_t number, std::size_t bytes) {
  const auto found = incoming_.find(number);
  if (found == incoming_.end()) return std::nullopt;
  const Message& message = *found->second;
  if (bytes > message.bytes() - message.moved) return std::nullopt;
  return message.data() + message.moved;
}

bool CpuPeer::on_taken(std::uint64_t number, std::size_t bytes) {
  const auto found = announced_.find(number);
  if (found == announced_.end()) return false;
  const MessageAt message = found->second;
  const bool was_told = message->place.mark != 0;
  if (!was_told || bytes > message->bytes() - message->moved) return false;
  if (advance(message, bytes)) announced_.erase(found);
  return true;
}

void CpuPeer::on_data(std::uint64_t number, std::size_t bytes) {
  was_heard_ = true;
  const auto found = incoming_.find(number);
  if (advance(found->second, bytes)) incoming_.erase(found);
}

/// Data that a peer sent before it left may still come, on the peer's own connection. Its end comes
/// last. If neither comes for a while, the peer is lost.
void CpuPeer::on_send_ended(const std::string& reason) {
  if (lost_ || send_ended_) return;
  send_ended_ = reason;
  if (!is_ending_) events_.ended();
  events_.said_bye();
  count_silence(0);
}

/// A process that did not run for long first reads what has come, before the next tick.
void CpuPeer::count_silence(int ticks) {
  constexpr int kMost = 4;
  constexpr std::chrono::milliseconds kTick{250};
  if (std::exchange(was_heard_, false)) ticks = 0;
  if (ticks == kMost) return on_closed(*send_ended_);
  silence_.expires_after(kTick);
  silence_.async_wait([this, ticks](const boost::system::error_code& error) {
    if (!error) run_locked_([&] { count_silence(ticks + 1); });
  });
}

/// Reads what came last. Answers to it fail, as the connection has ended.
void CpuPeer::on_closed(const std::string& reason) {
  if (lost_ || is_ending_) return;
  is_ending_ = true;
  if (!send_ended_) events_.ended();
  read_ring();
  lost_ = reason;
  events_.lost(reason);
}

std::string CpuPeer::describe_unexpected() const {
  std::vector<std::int32_t> tags;
  for (const auto& [tag, unexpected] : unexpected_) {
    if (tags.empty() || tags.back() != tag) tags.push_back(tag);
  }
  if (tags.empty()) return "has sent nothing else";
  constexpr std::size_t kNamed = 4;
  std::string text = tags.size() == 1 ? "has sent tag " : "has sent tags ";
  for (std::size_t i = 0; i < std::min(tags.size(), kNamed); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(tags[i]);
  }
  return text + (tags.size() > kNamed ? ", ..." : "");
}

}  // namespace ddp::internal
