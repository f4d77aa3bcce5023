// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <boost/asio/any_io_executor.hpp>

#include "base/boot_clock.h"

namespace ddprun::rendezvous {

/// Calls a function when a time of the BootClock has come. Asio's own timers stand still while the
/// host is suspended; this one fires at once when the host resumes, if its time has come.
///
/// Destroying it cancels it. Thread: the executor's.
class BootTimer {
 public:
  BootTimer(const boost::asio::any_io_executor& executor, std::function<void()> fired);
  ~BootTimer();
  BootTimer(const BootTimer&) = delete;

  /// Fires at `when` at the latest. It may fire sooner, at a time set before: moving a deadline
  /// further away, as each heartbeat does, costs no system call. nullopt: nothing to wait for. The
  /// first call throws boost::system::system_error if no descriptor is left, as asio's sockets do.
  void set(std::optional<BootClock::time_point> when);

 private:
  class Descriptor;
  std::shared_ptr<Descriptor> descriptor_;  // shared with the wait under way, which may outlive us
};

}  // namespace ddprun::rendezvous
