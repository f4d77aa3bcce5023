// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

namespace ddprun::rendezvous {

/// One end's bookkeeping of a session over connections that break: each counted message arrives
/// once and in order. Keeps a message until the other end has acknowledged it by its count, and
/// sends it again on the next connection. Pure.
template <class Message>
class Delivery {
 public:
  /// Adds a counted message that was sent, or will be as soon as there is a connection.
  void add(Message message) { unacked_.push_back(std::move(message)); }

  /// The other end has received `count` of all messages ever added. An impossible count
  /// acknowledges no more than there are.
  void ack(std::uint64_t count) {
    const std::uint64_t more = count > acked_ ? count - acked_ : 0;
    const auto known = std::min<std::uint64_t>(more, unacked_.size());
    unacked_.erase(unacked_.begin(), unacked_.begin() + static_cast<std::ptrdiff_t>(known));
    acked_ += known;
  }

  /// The messages to send again on a new connection, in this order.
  const std::deque<Message>& unacked() const { return unacked_; }

  /// Counts a message that came. False: it is a repetition, which was processed before.
  bool receive() {
    if (repetitions_ > 0) return --repetitions_, false;
    ++received_;
    return true;
  }

  /// Counted messages of the other end so far.
  std::uint64_t received() const { return received_; }

  /// The count to begin a new connection with.
  std::uint64_t report() { return reported_ = received_; }

  /// The count that the latest connection began with.
  std::uint64_t reported() const { return reported_; }

  /// The other end continues the session on the new connection. It repeats the messages that came
  /// after report() on the connection before.
  void resume() { repetitions_ = received_ - reported_; }

 private:
  std::deque<Message> unacked_;
  std::uint64_t acked_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t reported_ = 0;
  std::uint64_t repetitions_ = 0;  ///< still to come
};

}  // namespace ddprun::rendezvous
