// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ddp::internal {

/// How long calls may take to end once they are aborted, with this timeout for each call: within
/// bounds.
std::chrono::milliseconds limit_of_abort(std::chrono::milliseconds timeout);

/// Prints the error on stderr, leaves it for ddprun, and ends the process with exit code 124.
[[noreturn]] void end_process(const std::string& error);

/// Ends the process if its scope takes longer than limit_of_abort(timeout): to abort calls may
/// block for ever, as NCCL does while a CUDA graph has some. `of` begins the sentence.
class AbortLimit {
 public:
  AbortLimit(std::string of, std::chrono::milliseconds timeout);
  AbortLimit(const AbortLimit&) = delete;
  AbortLimit& operator=(const AbortLimit&) = delete;
  ~AbortLimit();

 private:
  void watch();

  std::string of_;
  std::chrono::milliseconds limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace ddp::internal
