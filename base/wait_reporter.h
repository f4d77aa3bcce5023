// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>

#include <boost/asio/steady_timer.hpp>

namespace ddprun {

/// Reports a wait to the user: first after `first`, then each time the wait has doubled.
///
/// The destructor ends the wait. Thread: the executor's.
class WaitReporter {
 public:
  using Report = std::function<void(std::chrono::seconds waited)>;

  explicit WaitReporter(const boost::asio::any_io_executor& executor,
                        std::chrono::seconds first = std::chrono::seconds(5))
      : timer_(executor), first_(first), next_(first) {}

  /// Begins a wait; it replaces one that is under way.
  void begin(Report report);

  /// Ends the wait: nothing more is reported.
  void end();

  bool is_under_way() const { return under_way_; }

  /// Whether `report` was called since `begin`: then the caller reports the end of the wait, too.
  bool has_reported() const { return next_ > first_; }

  /// The time since `begin`.
  std::chrono::steady_clock::duration waited() const {
    return std::chrono::steady_clock::now() - began_;
  }

 private:
  void wait_for_next();

  boost::asio::steady_timer timer_;
  Report report_;
  bool under_way_ = false;
  unsigned wait_ = 0;  ///< counts begin() and end()
  std::chrono::steady_clock::time_point began_;
  const std::chrono::seconds first_;
  std::chrono::seconds next_;
};

}  // namespace ddprun
