// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/steady_timer.hpp>

namespace ddprun::agent {

/// Waiting is talking: after five seconds, and each time the wait has doubled, whoever waits says
/// for whom.
///
/// Destroying it ends the wait. Thread: the executor's.
class WaitReporter {
 public:
  using Speak = std::function<void(std::chrono::seconds waited)>;

  explicit WaitReporter(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  /// A wait begins; one that was under way is over.
  void begin(Speak speak);

  void end();

  /// Whether it has spoken since `begin`: then the end of the wait is worth a word, too.
  bool has_spoken() const { return next_ > kFirst; }

  /// Since `begin`.
  std::chrono::steady_clock::duration waited() const {
    return std::chrono::steady_clock::now() - began_;
  }

 private:
  static constexpr std::chrono::seconds kFirst{5};

  void wait();

  boost::asio::steady_timer timer_;
  Speak speak_;
  std::chrono::steady_clock::time_point began_;
  std::chrono::seconds next_ = kFirst;
};

}  // namespace ddprun::agent
