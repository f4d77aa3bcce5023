// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "launcher/descendants.h"
#include "launcher/exit_status.h"
#include "launcher/signals.h"

namespace ddprun::launcher {
namespace {

pid_t guardian = 0;  // as the agent knows it

/// A timer that both processes have: the agent sets it, the guardian hears it. Here steady_clock is
/// CLOCK_MONOTONIC.
Fd liveness_timer;

/// A directory that the guardian is to remove, in memory that both processes share; empty: none.
char* cleanup_dir = nullptr;

timespec timespec_of(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

void set_liveness_timer(std::chrono::nanoseconds until, std::chrono::nanoseconds grace) {
  const itimerspec timer = {timespec_of(grace), timespec_of(until)};
  timerfd_settime(liveness_timer.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

/// Hears the liveness_timer expire. It is broken when it is not renewed within the grace after
/// that, by the guardian's own time: a host that stood still as a whole begins with an expired
/// liveness_timer.
class Promise {
 public:
  /// What poll(2) is to listen to, and for how long.
  int fd() const { return in_doubt() ? -1 : liveness_timer.get(); }
  int timeout() const {
    if (!in_doubt()) return -1;
    const auto left = doubt_ends_ - Clock::now();
    return std::max(0,
                    static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count()));
  }

  /// To be asked after each poll.
  bool is_broken() {
    std::uint64_t expired = 0;
    if (!in_doubt() && read(liveness_timer.get(), &expired, sizeof expired) == sizeof expired) {
      doubt_ends_ = Clock::now() + duration_of(remaining().it_interval);
    }
    if (!in_doubt() || Clock::now() < doubt_ends_) return false;
    doubt_ends_ = Clock::time_point::max();
    const itimerspec timer = remaining();
    const auto next = duration_of(timer.it_value);
    return next > next.zero() && next <= duration_of(timer.it_interval);
  }

 private:
  using Clock = std::chrono::steady_clock;

  static itimerspec remaining() {
    itimerspec timer = {};
    timerfd_gettime(liveness_timer.get(), &timer);
    return timer;
  }

  static std::chrono::nanoseconds duration_of(const timespec& time) {
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }

  bool in_doubt() const { return doubt_ends_ < Clock::time_point::max(); }

  Clock::time_point doubt_ends_ = Clock::time_point::max();
};

void become_agent(pid_t parent) {
  guardian = parent;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
}

/// The next signal that block_signals blocked; 0: something else happened.
int read_signal(const Fd& signals) {
  signalfd_siginfo info = {};
  return read(signals.get(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
}

/// Its end is what the others hear of: by then its workers have ended.
void end_agent(pid_t agent) {
  kill(agent, SIGSTOP);  // should it just move again, it shall start no others
  kill_all_descendants_but(agent);
  kill(agent, SIGKILL);
}

/// Until the agent ends: signals go down, and orphans that outlived the agent's care are reaped.
ExitStatus wait_for_agent(pid_t agent, const Fd& signals) {
  Promise watched;
  bool killed = false;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == agent) return ExitStatus(status);
    if (ended > 0) continue;
    pollfd sources[] = {{signals.get(), POLLIN, 0}, {watched.fd(), POLLIN, 0}};
    poll(sources, std::size(sources), watched.timeout());
    const int signal = read_signal(signals);
    if (signal > 0 && signal != SIGCHLD) kill(agent, signal);  // it is ours and not reaped
    if (!killed && watched.is_broken()) {
      killed = true;
      end_agent(agent);
      // Not before: whoever reads our stderr may be as slow as the agent.
      log::error("ddprun's agent was unresponsive for longer than --lease: killed its workers");
    }
  }
}

int end_for(ExitStatus agent) {
  kill_all_descendants();
  if (*cleanup_dir != '\0') remove_directory(cleanup_dir);
  if (agent.signal() != 0) {
    log::error("ddprun's agent was " + agent.text() + "; all its workers were killed");
  }
  return agent.code();
}

}  // namespace

Result<int> guard(const std::function<int()>& agent) {
  const pid_t parent = getpid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  liveness_timer.reset(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!liveness_timer) return os_error("cannot make a timer", errno);
  void* memory = mmap(nullptr, PATH_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return os_error("cannot share memory with the agent", errno);
  cleanup_dir = static_cast<char*>(memory);
  Result<Fd> signals = open_signal_fd();
  if (!signals) return signals.error();
  const pid_t child = fork();
  if (child < 0) return os_error("cannot make a process for the agent", errno);
  if (child == 0) {
    signals->reset();  // it opens its own
    become_agent(parent);
    return guardian_is_gone() ? 128 + SIGKILL : agent();
  }
  return end_for(wait_for_agent(child, *signals));
}

void arm_liveness_timer(std::chrono::steady_clock::time_point until,
                        std::chrono::milliseconds grace) {
  set_liveness_timer(until.time_since_epoch(), grace);
}

void disarm_liveness_timer() {
  set_liveness_timer(std::chrono::nanoseconds::zero(), std::chrono::nanoseconds::zero());
}

bool guardian_is_gone() {
  return getppid() != guardian;
}

void leave_to_guardian(const std::string& path) {
  if (cleanup_dir == nullptr || path.size() >= PATH_MAX) return;
  std::memcpy(cleanup_dir, path.c_str(), path.size() + 1);
}

void remove_directory(const std::string& path) {
  if (rmdir(path.c_str()) == 0) return;  // as a rule it is empty
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace ddprun::launcher
