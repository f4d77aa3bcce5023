// SPDX-License-Identifier: Apache-2.0
#include "collectives/crash/end_limit.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

#include "collectives/crash/crash_report.h"
#include "collectives/errors.h"
#include "collectives/signal_masked_thread.h"
#include "ddp/error.h"

namespace ddp::internal {

void end_process(const std::string& error) {
  constexpr int kExitCode = 124;  // as of timeout(1)
  print(error + "\n");
  if (begin_crash_report()) {
    write_crash_report(error, error + "\n");
    finish_crash_report();
  }
  ::_exit(kExitCode);
}

std::chrono::milliseconds limit_of_abort(std::chrono::milliseconds timeout) {
  using std::chrono::seconds;
  return std::clamp<std::chrono::milliseconds>(timeout, seconds(5), seconds(60));
}

EndLimit::EndLimit(std::string error, std::chrono::milliseconds limit)
    : error_(std::move(error)), limit_(limit) {
  try {
    thread_ = signal_masked_thread([this] { watch(); });
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): without a thread there is no limit
  }
}

EndLimit::~EndLimit() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void EndLimit::watch() {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, limit_, [this] { return is_over_; })) return;
  end_process(error_);
}

}  // namespace ddp::internal
