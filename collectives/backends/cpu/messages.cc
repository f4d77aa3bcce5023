// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/messages.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include "base/fd.h"
#include "collectives/agreement/agreed_error.h"
#include "collectives/errors.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLooksPerLock = 64;

}  // namespace

void MessageCall::wait() {
  if (!is_completed()) move_messages(Clock::time_point::max());
  Completion::wait();
}

bool MessageCall::completes_until(Clock::time_point deadline) {
  if (!is_completed()) move_messages(deadline);
  return Completion::completes_until(deadline);
}

void MessageCall::move_messages(Clock::time_point deadline) {
  const std::shared_lock lock(room_->mutex);
  if (room_->messages != nullptr) room_->messages->move_until_complete(*this, deadline);
}

CpuMessages::CpuMessages(GroupContext& context, CpuListeners& listeners, Events events)
    : context_(context),
      listeners_(listeners),
      events_(std::move(events)),
      timer_(io_context_),
      open_(&memory_),
      own_memory_(listeners.at(context.rank).token),
      peers_(static_cast<std::size_t>(context.size)),
      timeout_(context.timeout),
      group_ends_(own_error(context, ErrorKind::system, " aborted its messages: the group ends")),
      rings_(io_context_, run_locked_),
      reception_(io_context_, run_locked_, listeners, context.rank, context.size,
                 events_of_reception()) {
  room_->messages = this;
  thread_ = signal_masked_thread([this] { io_context_.run(); });
}

CpuMessages::~CpuMessages() {
  fail(group_ends_);
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
  peer = std::make_unique<CpuPeer>(io_context_, run_locked_, there.endpoint, first, own_memory_,
                                   context_.named(context_.rank), memory_, events_of_peer(other));
  if (is_finished_) peer->send_bye();
  return *peer;
}

CpuPeer::Events CpuMessages::events_of_peer(int other) {
  return {
      .done = [this](MessageAt message) { complete(message); },
      .mismatched = [this](MessageAt message,
                           const std::string& theirs) { stop_on_mismatch(message, theirs); },
      .left = [this](MessageAt message, const std::string& more) { stop_on_leave(message, more); },
      .said_bye = [this] { changed_.notify_all(); },
      .ended = [this, other] { events_.ended(other); },
      .lost = [this, other](const std::string& reason) { stop_on_loss(other, reason); },
      .overflowed = [this, other](std::size_t kept,
                                  std::int32_t tag) { stop_on_overflow(other, kept, tag); },
      .changed = [this] { changed_.notify_all(); },
      .readable = [this] { rings_.read_memory_later(); },
      .may_use_rings = [this, other] { rings_.join(other, peer(other)); },
  };
}

CpuReception::Events CpuMessages::events_of_reception() {
  return {
      .on_hello = [this](int rank, const std::shared_ptr<RecvConnection>& connection) -> CpuPeer* {
        CpuPeer& sender = peer(rank);
        if (sender.is_connected()) return nullptr;
        sender.on_connected(connection);
        return &sender;
      },
      .on_calls = events_.on_calls,
      .on_failure = [this](const std::string& reason) { stop_on_listener_failure(reason); },
  };
}

template <class F>
void CpuMessages::run_locked(const F& work) {
  std::unique_lock lock(mutex_);
  if (!failure_ && !agreeing_) run(lock, work);
}

/// Runs `work`. If it calls stop(), gets the agreed error and fails the group with it; without the
/// lock, as that waits for the store.
template <class F>
void CpuMessages::run(std::unique_lock<std::mutex>& lock, const F& work) {
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
  events_.failed(error);
}

void CpuMessages::fail(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  if (failure_) return;
  failure_ = error;
  // Closed before the program gets its buffers back: nobody may read them any more.
  reception_.close();
  for (const auto& peer : peers_) {
    if (peer) peer->close();
  }
  own_memory_.remove();
  for (const Message& message : open_) {
    if (message.call->open > 0) message.call->fail(error);
    message.call->open = 0;
  }
  open_.clear();
  changed_.notify_all();
  timer_.cancel();
  rings_.close();
}

void CpuMessages::set_timeout(std::chrono::milliseconds timeout) {
  const std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

std::shared_ptr<AsyncCall> CpuMessages::begin(const Task& task) {
  auto call = std::make_shared<MessageCall>(room_);
  call->open = task.transfers.size();
  std::unique_lock lock(mutex_);
  if (failure_) {
    call->fail(*failure_);
    return call;
  }
  if (task.transfers.empty()) call->succeed();
  MessageAt next = open_.end();
  for (const Transfer& transfer : task.transfers) {
    const auto message = open_.insert(open_.end(), {transfer, call, Clock::now(), timeout_});
    if (next == open_.end()) next = message;
  }
  if (next != open_.end() && !agreeing_) run(lock, [this, next] { begin_from(next); });
  return call;
}

/// Begins this message and those after it. Removes those that are complete at once.
void CpuMessages::begin_from(MessageAt next) {
  if (!timer_runs_ || next->deadline() < timer_.expiry()) check_deadline();
  while (next != open_.end()) {
    const MessageAt message = next++;
    peer(message->transfer.peer).begin(message);
  }
}

bool CpuMessages::run_now(const Transfer& message) {
  return message.sends ? send_now(message) : receive_now(message);
}

bool CpuMessages::send_now(const Transfer& transfer) {
  const std::lock_guard lock(mutex_);
  return !failure_ && !agreeing_ && peer(transfer.peer).send_now(transfer);
}

/// Spins as CpuRings::move_until() does, but requires that this rank has no other messages.
bool CpuMessages::receive_now(const Transfer& transfer) {
  std::optional<Clock::time_point> end;
  do {
    const std::lock_guard lock(mutex_);
    if (failure_ || agreeing_ || !open_.empty()) return false;
    if (!rings_.keep_awake()) return false;
    for (int looks = 0; looks < kLooksPerLock; ++looks) {
      const auto next = peer(transfer.peer).receive_now(transfer);
      if (next != CpuPeer::Next::late) return next == CpuPeer::Next::received;
    }
    if (!end) end = Clock::now() + CpuRings::kLongestSpin;
  } while (Clock::now() < *end);
  return false;
}

/// Returns the first rank with a peer of which that is true.
template <class F>
std::optional<int> CpuMessages::find_peer(const F& is_it) const {
  const auto found =
      std::ranges::find_if(peers_, [&](const auto& peer) { return peer && is_it(*peer); });
  if (found == peers_.end()) return std::nullopt;
  return static_cast<int>(found - peers_.begin());
}

bool CpuMessages::have_all_left() const {
  const auto left =
      std::ranges::count_if(peers_, [](const auto& peer) { return peer && peer->has_left(); });
  return left == context_.size - 1;
}

std::optional<int> CpuMessages::probe(int tag) {
  std::optional<int> sender;
  std::optional<int> lost;
  std::unique_lock lock(mutex_);
  const auto is_over = [&] {
    sender = find_peer([&](const CpuPeer& peer) { return peer.has_unexpected(tag); });
    lost = find_peer([](const CpuPeer& peer) { return peer.lost() && !peer.has_left(); });
    return failure_ || sender || (!agreeing_ && (lost || have_all_left()));
  };
  if (!changed_.wait_for(lock, timeout_, is_over)) return std::nullopt;
  if (sender) return sender;
  if (!failure_) {
    run(lock, [&] { stop_on_no_sender(tag, lost); });
    lock.lock();
  }
  throw Error(*failure_);
}

void CpuMessages::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return open_.empty(); });
}

void CpuMessages::say_goodbye() {
  run_locked([&] {
    is_finished_ = true;
    for (const auto& peer : peers_) {
      if (peer) peer->send_bye();
    }
  });
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, timeout_, [&] {
    return failure_ || std::ranges::all_of(
                           peers_, [](const auto& peer) { return !peer || peer->has_sent_all(); });
  });
}

void CpuMessages::complete(MessageAt message) {
  const auto call = std::move(message->call);
  open_.erase(message);
  if (--call->open == 0) call->succeed();
  if (open_.empty()) changed_.notify_all();
}

void CpuMessages::connect(const std::vector<int>& ranks) {
  run_locked([&] {
    for (const int rank : ranks) {
      if (rank != context_.rank) peer(rank).open();
    }
  });
}

bool CpuMessages::has_ended(int rank) {
  const std::lock_guard lock(mutex_);
  const auto& peer = peers_[static_cast<std::size_t>(rank)];
  return peer && peer->has_ended();
}

void CpuMessages::use_rings(ShmRings rings) {
  run_locked([&] {
    rings_.use(std::move(rings));
    for (int rank = 0; rank < context_.size; ++rank) {
      if (const auto& peer = peers_[static_cast<std::size_t>(rank)]) rings_.join(rank, *peer);
    }
  });
}

void CpuMessages::move_until_complete(const MessageCall& call, Clock::time_point deadline) {
  rings_.move_until([&call] { return call.open == 0; }, deadline);
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

/// Keeps only the first failure.
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
  if (!message) return;  // the next message with this rank fails
  stop([this, other, reason, where = "in " + text_of(*message)] {
    return agree_on_loss(context_, where, other, reason);
  });
}

/// A message is awaited from any rank, but `lost` is lost, or all others have left.
void CpuMessages::stop_on_no_sender(int tag, std::optional<int> lost) {
  const std::string where = "waiting for a message of any rank, tag " + std::to_string(tag);
  if (!lost) {
    const int other = context_.rank == 0 ? 1 : 0;
    return stop([this, where, other] { return agree_on_leave(context_, where, other); });
  }
  stop([this, where, other = *lost, reason = *peer(*lost).lost()] {
    return agree_on_loss(context_, where, other, reason);
  });
}

/// Names the messages from the peer that were not received: a wrong tag may be the cause.
void CpuMessages::stop_on_leave(MessageAt message, const std::string& more) {
  stop([this, other = message->transfer.peer, where = "in " + text_of(message), more] {
    return agree_on_leave(context_, where, other, "; it " + more);
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

/// Runs the timer until no message is open. The next message starts it again.
void CpuMessages::check_deadline() {
  const auto first = std::ranges::min_element(open_, {}, &Message::deadline);
  timer_runs_ = first != open_.end();
  if (!timer_runs_) return;
  if (first->deadline() <= Clock::now()) return stop_on_timeout(first);
  timer_.expires_at(first->deadline());
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) run_locked([&] { check_deadline(); });  // on error the timer has another deadline
  });
}

}  // namespace ddp::internal
