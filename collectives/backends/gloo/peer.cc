// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// What a rank holds of another's short messages that nobody receives: in bytes, and what holding
/// one costs beside its data.
constexpr std::size_t kCredit = 4 << 20;
constexpr std::size_t kCost = 64;

/// How many messages of another rank may wait for a receive. A rank that sends more to one that
/// does not receive them will not be helped by more memory.
constexpr std::size_t kMostWaiting = 1 << 17;

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

GlooPeer::GlooPeer(boost::asio::io_context& context, const Enter& enter,
                   boost::asio::ip::tcp::endpoint to, const Frame& first, int me, Events events)
    : to_(std::move(to)),
      first_(first),
      me_(me),
      events_(std::move(events)),
      outlet_(context, enter, [this](const std::string& reason) { ended(reason); }),
      credit_(kCredit) {}

void GlooPeer::begin(MessageAt message) {
  open();
  message->transfer.sends ? send(message) : receive(message);
}

/// To receive, too: the connection tells when the other ends.
void GlooPeer::open() {
  if (!outlet_.is_open()) outlet_.open(to_, first_);
}

void GlooPeer::send(MessageAt message) {
  if (lost_) return events_.lost(*lost_);
  const Transfer& transfer = message->transfer;
  Frame frame{.kind = Frame::Kind::message,
              .type = static_cast<std::uint8_t>(transfer.type),
              .is_short = static_cast<std::uint8_t>(message->bytes() <= Frame::kShort),
              .tag = transfer.tag,
              .number = ++sent_,
              .count = transfer.count};
  if (cost_of(frame) > credit_) frame.is_short = 0;
  if (frame.is_short == 0) {
    announced_.emplace(frame.number, message);
    outlet_.say(frame);
    return end_waiting();
  }
  credit_ -= cost_of(frame);
  outlet_.say(frame, message->data(), [this, message] { events_.done(message); });
}

void GlooPeer::receive(MessageAt message) {
  const std::int32_t tag = message->transfer.tag;
  const auto first = arrivals_.lower_bound(tag);
  if (first == arrivals_.end() || first->first != tag) {
    receives_.emplace(tag, message);
    if (lost_) return events_.lost(*lost_);
    return end_waiting();
  }
  const Arrival arrival = std::move(first->second);
  arrivals_.erase(first);
  held_ -= cost_of(arrival.frame);
  match(message, arrival.frame, arrival.data.data());
}

void GlooPeer::match(MessageAt message, const Frame& frame, const char* data) {
  const Transfer& transfer = message->transfer;
  if (static_cast<DataType>(frame.type) != transfer.type || frame.count != transfer.count) {
    const Transfer theirs{
        .tag = frame.tag, .type = static_cast<DataType>(frame.type), .count = frame.count};
    return events_.differs(message, describe(theirs, me_));
  }
  if (frame.is_short == 0) {
    if (lost_) return events_.lost(*lost_);
    coming_.emplace(frame.number, message);
    message->waits_since = std::chrono::steady_clock::now();
    return outlet_.say({.kind = Frame::Kind::go, .number = frame.number});
  }
  if (frame.follow() > 0) std::memcpy(message->data(), data, frame.follow());
  give_back(cost_of(frame));
  events_.done(message);
}

void GlooPeer::give_back(std::size_t credit) {
  taken_ += credit;
  if (taken_ < kCredit / 2) return;
  outlet_.say({.kind = Frame::Kind::credit, .count = std::exchange(taken_, 0)});
}

/// Whatever the other has not matched until it parts never will be.
void GlooPeer::end_waiting() {
  if (!parted_) return;
  const std::string theirs = "the group's end; it " + unreceived();
  if (!receives_.empty()) return events_.differs(receives_.begin()->second, theirs);
  if (!announced_.empty()) events_.differs(announced_.begin()->second, theirs);
}

void GlooPeer::say_bye() {
  said_bye_ = true;
  if (!known_ && !outlet_.is_open()) return;  // it has nothing to wait for
  open();
  outlet_.say({.kind = Frame::Kind::bye});
}

void GlooPeer::come() {
  known_ = true;
  if (said_bye_) say_bye();
}

bool GlooPeer::heard(const Frame& frame, const char* data) {
  switch (frame.kind) {
    case Frame::Kind::message:
      return announced(frame, data);
    case Frame::Kind::go:
      return go(frame.number);
    case Frame::Kind::credit:
      if (frame.count > kCredit - credit_) return false;
      credit_ += frame.count;
      return true;
    case Frame::Kind::bye:
      parted_ = true;
      end_waiting();
      return true;
    case Frame::Kind::hello:
    case Frame::Kind::data:
    case Frame::Kind::watch:
      break;
  }
  return false;
}

bool GlooPeer::announced(const Frame& frame, const char* data) {
  if (frame.number != ++heard_) return false;
  const auto first = receives_.lower_bound(frame.tag);
  if (first == receives_.end() || first->first != frame.tag) {
    if (cost_of(frame) > kCredit - held_) return false;
    held_ += cost_of(frame);
    arrivals_.emplace(frame.tag, Arrival{frame, {data, data + frame.follow()}});
    if (arrivals_.size() > kMostWaiting) events_.overrun(kMostWaiting, frame.tag);
    return true;
  }
  const MessageAt message = first->second;
  receives_.erase(first);
  match(message, frame, data);
  return true;
}

bool GlooPeer::go(std::uint64_t number) {
  const auto found = announced_.find(number);
  if (found == announced_.end()) return false;
  const MessageAt message = found->second;
  announced_.erase(found);
  outlet_.stream(number, message->data(), message->bytes(), [this, message](bool last) {
    message->waits_since = std::chrono::steady_clock::now();
    if (last) events_.done(message);
  });
  return true;
}

std::optional<char*> GlooPeer::place(std::uint64_t number, std::size_t bytes) {
  const auto found = coming_.find(number);
  if (found == coming_.end()) return std::nullopt;
  const Message& message = *found->second;
  if (bytes > message.bytes() - message.moved) return std::nullopt;
  return message.data() + message.moved;
}

void GlooPeer::came(std::uint64_t number, std::size_t bytes) {
  const auto found = coming_.find(number);
  const MessageAt message = found->second;
  message->moved += bytes;
  message->waits_since = std::chrono::steady_clock::now();
  if (message->moved < message->bytes()) return;
  coming_.erase(found);
  events_.done(message);
}

void GlooPeer::ended(const std::string& reason) {
  if (lost_) return;
  lost_ = reason;
  events_.lost(reason);
}

std::string GlooPeer::unreceived() const {
  std::vector<std::int32_t> tags;
  for (const auto& [tag, arrival] : arrivals_) {
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
