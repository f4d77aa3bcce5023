// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <set>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/async_jobs.h"

namespace ddprun::agent {

/// Makes workers that hang print the stacks that could not be read: sends SIGABRT to those that
/// catch it, such as Python with PYTHONFAULTHANDLER.
///
/// Thread: the executor's.
class AbortStacks {
 public:
  explicit AbortStacks(boost::asio::any_io_executor executor) : disk_(executor), limit_(executor) {}

  /// The processes whose stacks could not be read when they hung.
  void set_unread(std::vector<pid_t> unread) { unread_ = std::move(unread); }

  /// Signals the unread ones of `running`. Calls `done` once: when those that print have ended, or
  /// after a second. Returns false if no unread one runs; then `done` is not called.
  bool begin(const std::vector<pid_t>& running, std::function<void()> done);

  /// Forgets `done`: the workers are to end now.
  void cancel();

  /// Whether this process has got SIGABRT, or may get it now.
  bool is_printing(pid_t pid) const { return printing_.contains(pid); }

  /// Handles the end of this process; may call `done`.
  void ended(pid_t pid);

 private:
  void wait_for_end();

  AsyncJobs disk_;
  boost::asio::steady_timer limit_;
  std::vector<pid_t> unread_;
  std::set<pid_t> printing_;
  std::function<void()> done_;  // empty: nothing is under way
  unsigned begun_ = 0;          // counts begin() and cancel()
};

}  // namespace ddprun::agent
