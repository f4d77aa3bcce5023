// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ddp::internal {

/// Prints the error on stderr, reports it to ddprun, and ends the process with exit code 124.
[[noreturn]] void end_process(const std::string& error);

/// The time for aborted calls to end, if each call has this timeout: within bounds.
std::chrono::milliseconds limit_of_abort(std::chrono::milliseconds timeout);

/// Ends the process with the error if its scope takes longer than the limit.
class EndLimit {
 public:
  EndLimit(std::string error, std::chrono::milliseconds limit);
  EndLimit(const EndLimit&) = delete;
  EndLimit& operator=(const EndLimit&) = delete;
  ~EndLimit();

 private:
  void watch();

  const std::string error_;
  const std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
