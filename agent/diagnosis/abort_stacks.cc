// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/abort_stacks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <sys/resource.h>
#include <utility>

#include "launcher/process/signal_catchers.h"

namespace ddprun::agent {
namespace {

/// How long a worker may print its stacks.
constexpr std::chrono::seconds kPrintingLimit{1};

/// A worker that prints its stacks needs no core dump.
void forbid_core(pid_t pid) {
  rlimit core{};
  if (prlimit(pid, RLIMIT_CORE, nullptr, &core) != 0) return;
  core.rlim_cur = 0;
  prlimit(pid, RLIMIT_CORE, &core, nullptr);
}

/// Sends SIGABRT to the workers that print their stacks at it, and returns these.
std::vector<pid_t> abort_those_that_print(const std::vector<pid_t>& workers) {
  std::ranges::for_each(workers, forbid_core);
  return launcher::send_notice(workers, SIGABRT);
}

}  // namespace

bool AbortStacks::begin(const std::vector<pid_t>& running, std::function<void()> done) {
  cancel();
  for (const pid_t pid : running) {
    if (std::ranges::count(unread_, pid) > 0) printing_.insert(pid);  // unread_ may have ended ones
  }
  if (printing_.empty()) return false;
  done_ = std::move(done);
  disk_.run([workers = std::vector(printing_.begin(),
                                   printing_.end())] { return abort_those_that_print(workers); },
            [this, begun = begun_](const std::vector<pid_t>& signalled) {
              if (begun_ != begun) return;
              std::erase_if(printing_,
                            [&](pid_t pid) { return std::ranges::count(signalled, pid) == 0; });
              wait_for_end();
            });
  return true;
}

void AbortStacks::cancel() {
  ++begun_;
  printing_.clear();
  done_ = nullptr;
  limit_.cancel();
}

void AbortStacks::ended(pid_t pid) {
  if (printing_.erase(pid) > 0) wait_for_end();
}

void AbortStacks::wait_for_end() {
  const auto finish = [this] {
    const auto done = std::move(done_);
    cancel();
    done();
  };
  if (printing_.empty()) return finish();
  limit_.expires_after(kPrintingLimit);
  limit_.async_wait([finish, this, begun = begun_](boost::system::error_code cancelled) {
    if (!cancelled && begun_ == begun) finish();
  });
}

}  // namespace ddprun::agent
