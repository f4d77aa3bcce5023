// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/messages.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <sched.h>
#include <utility>

#include "base/fd.h"
#include "collectives/backends/agreed_error.h"
#include "collectives/errors.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

/// How many connections are kept that have not identified themselves, besides three for every rank.
/// Ranks do so at once.
constexpr std::size_t kMaxUnidentified = 64;

/// About what waking up costs.
constexpr auto kLongestSpin = std::chrono::microseconds(50);
/// So long after a thread has looked at the rings other ranks do not wake this one.
constexpr auto kIdle = std::chrono::microseconds(300);
constexpr int kLooksPerYield = 64;
constexpr int kLooksPerLock = 64;

}  // namespace

void MessageCall::wait() {
  move_messages(Clock::time_point::max());
  Completion::wait();
}

bool MessageCall::completes_until(Clock::time_point deadline) {
  move_messages(deadline);
  return Completion::completes_until(deadline);
}

void MessageCall::move_messages(Clock::time_point deadline) {
  const std::shared_lock lock(room_->mutex);
  if (room_->messages != nullptr) room_->messages->move_until_complete(*this, deadline);
}

CpuMessages::CpuMessages(GroupContext& context, CpuListeners& listeners,
                         std::function<void(const Error& error)> on_failure,
                         std::function<void(int from, ddprun::Fd socket)> on_calls)
    : context_(context),
      listeners_(listeners),
      token_(listeners.at(context.rank).token),
      on_failure_(std::move(on_failure)),
      on_calls_(std::move(on_calls)),
      acceptor_(io_context_),
      timer_(io_context_),
      idle_timer_(io_context_),
      peers_(static_cast<std::size_t>(context.size)),
      timeout_(context.timeout),
      ring_of_(static_cast<std::size_t>(context.size)),
      are_offered_(static_cast<std::size_t>(context.size)) {
  room_->messages = this;
  listeners.release_to(acceptor_);
  accept();
  thread_ = signal_masked_thread([this] { io_context_.run(); });
}

CpuMessages::~CpuMessages() {
  fail(own_error(context_, ErrorKind::system, " aborted its messages: the group ends"));
  {
    const std::lock_guard lock(room_->mutex);
    room_->messages = nullptr;
  }
  thread_.join();
}

CpuPeer& CpuMessages::peer(int other) {
  auto& peer = peers_[static_cast<std::size_t>(other)];
  if (peer) return *peer;
  const CpuListeners::Listener& there = listeners_.at(other);
  const Frame first{.kind = Frame::Kind::hello, .tag = context_.rank, .number = there.token};
  const RunLocked run = [this](const std::function<void()>& work) { run_locked(work); };
  peer = std::make_unique<CpuPeer>(io_context_, run, there.endpoint, first,
                                   context_.named(context_.rank), events_of_peer(other));
  if (is_finished_) peer->send_bye();
  return *peer;
}

CpuPeer::Events CpuMessages::events_of_peer(int other) {
  return {
      [this](MessageAt message) { complete(message); },
      [this](MessageAt message, const std::string& theirs) { stop_on_mismatch(message, theirs); },
      [this, other] { read_ring_of(&peer(other)); },
      [this, other](const std::string& reason) { stop_on_loss(other, reason); },
      [this, other](std::size_t kept, std::int32_t tag) { stop_on_overflow(other, kept, tag); },
  };
}

/// If `work` calls stop(), gets the agreed error and fails the group with it; without the lock, as
/// that waits for the store.
template <class F>
void CpuMessages::run_locked(const F& work) {
  std::unique_lock lock(mutex_);
  if (failure_ || agreeing_) return;
  try {
    work();
  } catch (const std::bad_alloc&) {
    agree_ = [this] {
      return agree_on(context_, "in a message", ErrorKind::system,
                      "has no memory left for messages");
    };
  }
  if (!agree_) return;
  agreeing_ = true;
  const auto agree = std::exchange(agree_, {});
  lock.unlock();
  const Error error = agree();
  fail(error);
  on_failure_(error);
}

void CpuMessages::fail(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  for (const Message& message : open_) {
    if (message.call->open > 0) message.call->fail(error);
    message.call->open = 0;
  }
  open_.clear();
  changed_.notify_all();
  for (Accepted& each : accepted_) each.connection->close();
  for (const auto& peer : peers_) {
    if (peer) peer->close();
  }
  error_code ignored;
  acceptor_.close(ignored);
  timer_.cancel();
  idle_timer_.cancel();
}

void CpuMessages::set_timeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

std::shared_ptr<AsyncCall> CpuMessages::begin(const Task& task) {
  auto call = std::make_shared<MessageCall>(room_);
  call->open = task.transfers.size();
  if (task.transfers.empty()) call->succeed();
  std::vector<MessageAt> begun;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) {
      call->fail(*failure_);
      return call;
    }
    for (const Transfer& transfer : task.transfers) {
      begun.push_back(open_.insert(open_.end(), {transfer, call, Clock::now(), timeout_}));
    }
  }
  run_locked([&] {
    if (begun.empty()) return;
    if (!timer_runs_ || begun.front()->deadline() < timer_.expiry()) check_deadline();
    for (const MessageAt message : begun) peer(message->transfer.peer).begin(message);
  });
  return call;
}

bool CpuMessages::run_now(const Task& task) {
  if (task.transfers.size() != 1) return false;
  const Transfer& only = task.transfers.front();
  return only.sends ? send_now(only) : receive_now(only);
}

bool CpuMessages::send_now(const Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  return !failure_ && !agreeing_ && peer(transfer.peer).send_now(transfer);
}

/// Spins as move_until_complete() does, but for other messages of this rank, so there are none.
bool CpuMessages::receive_now(const Transfer& transfer) {
  std::optional<Clock::time_point> end;
  do {
    const std::lock_guard lock(mutex_);
    RecvConnection* const ring = ring_of_[static_cast<std::size_t>(transfer.peer)];
    const bool looks_often = awake_ && ring != nullptr && rings_->have_own_cpus();
    if (failure_ || agreeing_ || !looks_often || !open_.empty()) return false;
    is_idle_ = false;  // so it stays awake
    for (int looks = 0; looks < kLooksPerLock; ++looks) {
      const auto next = peer(transfer.peer).receive_now(transfer, *ring);
      if (next != CpuPeer::Next::late) return next == CpuPeer::Next::received;
    }
    if (!end) end = Clock::now() + kLongestSpin;
  } while (Clock::now() < *end);
  return false;
}

void CpuMessages::finish() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_.empty(); });
  }
  run_locked([&] {
    is_finished_ = true;
    for (const auto& peer : peers_) {
      if (peer) peer->send_bye();
    }
  });
}

void CpuMessages::wait_for_others() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return failure_ || std::ranges::all_of(
                           peers_, [](const auto& peer) { return !peer || peer->has_finished(); });
  });
}

void CpuMessages::complete(MessageAt message) {
  const auto call = std::move(message->call);
  open_.erase(message);
  if (--call->open == 0) call->succeed();
  if (open_.empty()) changed_.notify_all();
}

void CpuMessages::accept() {
  acceptor_.async_accept([this](const error_code& error, tcp::socket socket) {
    run_locked([&] {
      if (error) return stop_on_listener_failure(error.message());
      add_connection(std::move(socket));
      accept();
    });
  });
}

/// Closes the oldest unidentified connection if there are too many.
void CpuMessages::limit_unidentified() {
  std::erase_if(accepted_, [](const Accepted& each) { return each.connection->is_closed(); });
  const auto is_unidentified = [](const Accepted& each) { return !each.is_identified(); };
  const auto unidentified = std::ranges::count_if(accepted_, is_unidentified);
  if (static_cast<std::size_t>(unidentified) < 3 * peers_.size() + kMaxUnidentified) return;
  const auto oldest = std::ranges::find_if(accepted_, is_unidentified);
  oldest->connection->close();
  accepted_.erase(oldest);
}

void CpuMessages::add_connection(tcp::socket socket) {
  limit_unidentified();
  set_socket_options(socket);
  Accepted& accepted = accepted_.emplace_back();
  accepted.connection = std::make_shared<RecvConnection>(
      std::move(socket), [this](const std::function<void()>& work) { run_locked(work); },
      FrameReader::Events{
          [this, &accepted](const Frame& frame, const char* data) {
            return on_frame(accepted, frame, data);
          },
          [&accepted](std::uint64_t number, std::size_t bytes) -> std::optional<char*> {
            return accepted.peer != nullptr ? accepted.peer->destination(number, bytes)
                                            : std::nullopt;
          },
          [&accepted](std::uint64_t number, std::size_t bytes) {
            accepted.peer->on_data(number, bytes);
          },
      },
      [&accepted](const std::string& reason) {
        if (accepted.peer != nullptr) accepted.peer->on_closed(reason);
      });
  accepted.connection->open();
}

bool CpuMessages::on_frame(Accepted& accepted, const Frame& frame, const char* data) {
  if (frame.kind == Frame::Kind::bye) changed_.notify_all();
  if (accepted.peer == nullptr) return on_first_frame(accepted, frame);
  if (frame.kind == Frame::Kind::turn) return accepted.connection->turn_to_ring();
  if (frame.kind != Frame::Kind::ring) return accepted.peer->on_frame(frame, data);
  auto& is_offered = are_offered_[static_cast<std::size_t>(accepted.rank)];
  if (is_offered != 0) return false;
  is_offered = 1;
  turn_to_ring(accepted.rank);
  return true;
}

/// It must be a hello, a watch or calls, with the rank of the sender and our token. A rank may send
/// one hello.
bool CpuMessages::on_first_frame(Accepted& accepted, const Frame& frame) {
  const bool is_rank = frame.tag >= 0 && frame.tag < context_.size && frame.tag != context_.rank;
  if (accepted.watches || frame.number != token_ || !is_rank) return false;
  if (frame.kind == Frame::Kind::watch) return accepted.watches = true;
  if (frame.kind == Frame::Kind::calls) {
    on_calls_(frame.tag, accepted.connection->release());
    return true;
  }
  if (frame.kind != Frame::Kind::hello) return false;
  CpuPeer& sender = peer(frame.tag);
  if (std::ranges::count(accepted_, &sender, &Accepted::peer) > 0) return false;
  accepted.peer = &sender;
  accepted.rank = frame.tag;
  sender.on_connected();
  offer_ring(accepted);
  return true;
}

void CpuMessages::use_rings(ShmRings rings) {
  run_locked([&] {
    rings_.emplace(std::move(rings));
    for (const Accepted& accepted : accepted_) {
      if (accepted.peer != nullptr && !accepted.connection->is_closed()) offer_ring(accepted);
    }
    for (int other = 0; other < context_.size; ++other) {
      if (are_offered_[static_cast<std::size_t>(other)] != 0) turn_to_ring(other);
    }
  });
}

/// The sender may write to a ring that this rank reads, if there is memory for it.
void CpuMessages::offer_ring(const Accepted& accepted) {
  auto ring = rings_ ? rings_->from(accepted.rank) : std::nullopt;
  if (!ring) return;
  accepted.connection->set_ring(std::move(*ring));
  accepted.connection->set_awake(awake_);
  ringed_.push_back(accepted.connection);
  ring_of_[static_cast<std::size_t>(accepted.rank)] = accepted.connection.get();
  accepted.peer->offer_ring();
}

void CpuMessages::turn_to_ring(int other) {
  auto ring = rings_ ? rings_->to(other) : std::nullopt;
  if (!ring) return;
  peer(other).use_ring(std::move(*ring));
  peer(other).set_awake(awake_);
  ring_writers_.push_back(&peer(other));
}

/// Whether anything was read.
bool CpuMessages::move_in_rings() {
  bool moved = false;
  for (const auto& connection : ringed_) moved = connection->read_ring() || moved;
  for (CpuPeer* const peer : ring_writers_) peer->go_on();
  return moved;
}

void CpuMessages::read_ring_of(const CpuPeer* sender) {
  for (const Accepted& accepted : accepted_) {
    if (accepted.peer == sender) accepted.connection->read_ring();
  }
}

void CpuMessages::set_awake(bool awake) {
  awake_ = awake;
  for (const auto& connection : ringed_) connection->set_awake(awake);
  for (CpuPeer* const peer : ring_writers_) peer->set_awake(awake);
}

/// Until nobody has looked at the rings for a while.
void CpuMessages::watch_idleness() {
  watches_idleness_ = true;
  idle_timer_.expires_after(kIdle);
  idle_timer_.async_wait([this](const error_code&) {
    run_locked([&] {
      watches_idleness_ = false;
      if (movers_ == 0 && std::exchange(is_idle_, true)) return set_awake(false);
      move_in_rings();
      watch_idleness();
    });
  });
}

void CpuMessages::move_until_complete(const MessageCall& call, Clock::time_point deadline) {
  Clock::time_point end{};
  bool is_first = true;
  for (int looks = 1;; ++looks) {
    bool goes_on = false;
    bool has_own_cpu = false;
    run_locked([&] {
      if (call.open == 0 || ringed_.empty()) return;
      if (std::exchange(is_first, false)) ++movers_;
      if (!awake_) set_awake(true);
      if (!watches_idleness_) watch_idleness();
      const bool moved = move_in_rings();
      goes_on = call.open > 0;
      has_own_cpu = rings_->have_own_cpus();
      const auto now = Clock::now();
      if (moved || end == Clock::time_point{}) end = std::min(now + kLongestSpin, deadline);
      if (goes_on && now < end) return;
      if (goes_on && movers_ == 1) set_awake(false);
      goes_on = false;
    });
    if (!goes_on) break;
    if (!has_own_cpu || looks % kLooksPerYield == 0) ::sched_yield();
  }
  if (is_first) return;
  const std::lock_guard lock(mutex_);
  --movers_;
  is_idle_ = false;
}

std::optional<MessageAt> CpuMessages::oldest_with(int other) {
  const auto found =
      std::ranges::find(open_, other, [](const Message& message) { return message.transfer.peer; });
  return found == open_.end() ? std::nullopt : std::optional(found);
}

std::string CpuMessages::text_of(MessageAt message) const {
  return describe(message->transfer, context_.named(message->transfer.peer));
}

std::string CpuMessages::peer_of(MessageAt message) const {
  return name_ranks({context_.named(message->transfer.peer)});
}

/// The first failure counts.
void CpuMessages::stop(std::function<Error()> agree) {
  if (!agree_) agree_ = std::move(agree);
}

void CpuMessages::stop_on_mismatch(MessageAt message, const std::string& theirs) {
  const std::string ours = text_of(message);
  stop([this, ours, sentence = "is at " + ours + ", but " + peer_of(message) + " is at " + theirs] {
    return agree_on(context_, "in " + ours, ErrorKind::mismatch, sentence);
  });
}

void CpuMessages::stop_on_loss(int other, const std::string& reason) {
  changed_.notify_all();
  const auto message = oldest_with(other);
  if (!message) return;  // the next message with it fails
  stop([this, other, reason, where = "in " + text_of(*message)] {
    return agree_on_loss(context_, where, other, reason);
  });
}

void CpuMessages::stop_on_listener_failure(const std::string& reason) {
  stop([this, sentence = "cannot accept a connection for messages: " + reason] {
    return agree_on(context_, "in a message", ErrorKind::system, sentence);
  });
}

void CpuMessages::stop_on_overflow(int other, std::size_t kept, std::int32_t tag) {
  stop([this, sentence = "holds " + std::to_string(kept) + " messages of " +
                         name_ranks({context_.named(other)}) +
                         " that it does not receive, and one more comes, tag " +
                         std::to_string(tag)] {
    return agree_on(context_, "in a message", ErrorKind::mismatch, sentence);
  });
}

/// Names the messages from the peer that were not received: a wrong tag may be the cause.
void CpuMessages::stop_on_timeout(MessageAt message) {
  const std::string where = "in " + text_of(message);
  const std::string what = "timed out after " + name_time(message->timeout) + " waiting for " +
                           peer_of(message) + " " + where + "; " + peer_of(message) + " " +
                           peer(message->transfer.peer).describe_unexpected();
  stop([this, where, what] { return agree_on(context_, where, ErrorKind::timed_out, what); });
}

/// Runs the timer until no message is open; the next message starts it again.
void CpuMessages::check_deadline() {
  const auto first = std::ranges::min_element(open_, {}, &Message::deadline);
  timer_runs_ = first != open_.end();
  if (!timer_runs_) return;
  if (first->deadline() <= Clock::now()) return stop_on_timeout(first);
  timer_.expires_at(first->deadline());
  timer_.async_wait([this](const error_code& error) {
    if (!error) run_locked([&] { check_deadline(); });  // else it waits for another deadline
  });
}

}  // namespace ddp::internal
