// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/guardian.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <poll.h>
#include <span>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "base/blocking_io.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/guardian/final_message.h"
#include "launcher/guardian/survivors.h"
#include "launcher/kernel/descendants.h"
#include "launcher/kernel/liveness.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/signal_reader.h"
#include "launcher/process/signals.h"
#include "launcher/process/terminal.h"

namespace ddprun::launcher {
namespace {

bool may_be_forwarded(int signal) {
  const auto has = [signal](std::span<const int> signals) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
  };
  return has(kStopSignals) || has(kForwardedSignals) || has(kOtherSignals);
}

}  // namespace

int ControlInput::timeout() const {
  if (!input_ && !hurry_at_) return -1;
  return poll_time(hurry_at_.value_or(last_heard_ + silence_));
}

std::vector<int> ControlInput::read(bool readable) {
  if (!input_) return hurry();
  unsigned char bytes[64];
  const ssize_t count = readable ? ::read(input_.get(), bytes, sizeof bytes) : -1;
  const bool ended = count == 0 || (count < 0 && readable && errno != EINTR && errno != EAGAIN);
  const Clock::time_point now = Clock::now();
  if (count > 0) last_heard_ = now;
  if (ended || now - last_heard_ >= silence_) {
    input_.reset();
    hurry_at_ = now + silence_;
    return {SIGTERM};
  }
  std::vector<int> signals(bytes, bytes + std::max<ssize_t>(count, 0));
  std::erase_if(signals, [](int signal) { return !may_be_forwarded(signal); });
  return signals;
}

std::vector<int> ControlInput::hurry() {
  if (!hurry_at_ || Clock::now() < *hurry_at_) return {};
  hurry_at_.reset();
  return {SIGTERM};
}

namespace {

pid_t guardian_pid = 0;  // set in the agent

LivenessTimer liveness_timer;

/// Memory that both processes share: the agent writes it, the guardian reads it.
struct Shared {
  char cleanup_dir[PATH_MAX];  ///< the guardian removes it; empty: no directory
  FinalMessage final_message;
  std::atomic<std::uint32_t> liveness_settings;
  std::atomic<bool> quit_stops_nothing;
  std::atomic<log::Format> log_format;
  std::atomic<bool> log_with_time;
  char log_host[HOST_NAME_MAX + 1];
  std::atomic<pid_t>
      workers[1024];  ///< 0 ends the list. They may have ended, and others have their pids
};
Shared* shared = nullptr;

/// Logs in the guardian, which has not read the command line.
void report(const std::string& sentence) {
  log::set_style({shared->log_format, shared->log_with_time, shared->log_host});
  log::error(sentence);
}

void become_agent(pid_t parent) {
  guardian_pid = parent;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGCONT);  // read like other signals; also continues a stopped agent
  setpgid(0, 0);
}

struct ReceivedSignal {
  int number;          // 0: no signal
  bool from_terminal;  // or from the kernel for another reason, but from no process
};

ReceivedSignal read_signal(const Fd& signals) {
  signalfd_siginfo info = {};
  if (read(signals.get(), &info, sizeof info) != sizeof info) return {0, false};
  return {static_cast<int>(info.ssi_signo), info.ssi_code == SI_KERNEL};
}

/// Kills each worker with its process group. A worker that is still the agent's child still has its
/// group: the agent is stopped and reaps none.
void kill_known_workers(pid_t agent) {
  for (const std::atomic<pid_t>& each : shared->workers) {
    const pid_t worker = each;
    if (worker == 0) return;
    if (signal_descendant({worker, agent, worker, '?', ""}, SIGKILL)) kill(-worker, SIGKILL);
  }
}

/// Kills the agent last: while it lives, no other process becomes the parent of what it started.
void kill_agent(pid_t agent) {
  kill(agent, SIGSTOP);  // if it runs again, it must not start more workers
  kill_known_workers(agent);
  kill_all_descendants_but(agent);
  kill(agent, SIGKILL);
}

/// Whether `child` exists and has neither ended nor stopped.
bool still_runs(pid_t child) {
  siginfo_t info = {};
  constexpr int kLook = WSTOPPED | WEXITED | WNOHANG | WNOWAIT;
  return waitid(P_PID, static_cast<id_t>(child), &info, kLook) == 0 && info.si_pid == 0;
}

/// Stops the agent first, so that it can no longer start workers, continue them after an earlier
/// Ctrl-Z, or write when the shell sees this process stopped. It stops within a second, unless it
/// sleeps in the kernel.
void stop_all(pid_t agent, TerminalSettings& terminal) {
  kill(agent, SIGSTOP);
  while (still_runs(agent) && wait_for_child_signal(std::chrono::seconds(1))) {
  }
  signal_all_descendants(SIGSTOP);
  terminal.suspend();
  stop_this_process();
  terminal.resume();
  kill(agent, SIGCONT);
  kill(agent, SIGWINCH);  // the window may have another size by now
}

/// poll(2)'s timeout: the shorter of the two; -1 is no timeout.
int shorter_timeout(int a, int b) {
  return a < 0 || (b >= 0 && b < a) ? b : a;
}

void forward(StopRequests& requests, pid_t agent, ReceivedSignal signal) {
  const bool stops_nothing =
      signal.number == SIGWINCH || (signal.number == SIGQUIT && shared->quit_stops_nothing);
  if (stops_nothing) {
    kill(agent, signal.number);
  } else {
    requests.forward(signal.number, signal.from_terminal);
  }
}

struct AgentEnd {
  ExitStatus status;
  bool was_unresponsive = false;
};

/// Forwards signals and reaps orphans until the agent has ended. After killing the agent it writes
/// only if the agent does not end: our stderr's reader may be slow, and the agent's remaining
/// processes are only killed when the agent is dead.
AgentEnd wait_for_agent(pid_t agent, const Fd& signals, ControlInput& control,
                        StopRequests& requests, TerminalSettings& terminal,
                        SurvivorWait& survivors) {
  LivenessWatch watch(liveness_timer);
  Fd its_end(static_cast<int>(syscall(SYS_pidfd_open, agent, 0)));
  bool killed = false;
  const auto kill_once = [&] {
    if (std::exchange(killed, true)) return;
    kill_agent(agent);
    survivors.begin();
  };
  bool was_unresponsive = false;
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == agent) return {ExitStatus(status), was_unresponsive};
    if (ended > 0) continue;
    pollfd sources[] = {{signals.get(), POLLIN, 0},
                        {watch.fd(), POLLIN, 0},
                        {control.fd(), POLLIN, 0},
                        {its_end.get(), POLLIN, 0}};
    const auto until_report = static_cast<int>(survivors.time_left().count());
    const int timeout = shorter_timeout(shorter_timeout(watch.timeout(), until_report),
                                        shorter_timeout(requests.timeout(), control.timeout()));
    poll(sources, std::size(sources), timeout);
    survivors.report_if_due();
    if (sources[3].revents != 0 && still_runs(agent)) {  // it has ended, but its tracer holds it
      its_end.reset();
      kill_once();
    }
    for (const int signal : control.read(sources[2].revents != 0))
      forward(requests, agent, {signal, false});
    const auto [signal, from_terminal] = read_signal(signals);
    if (signal == SIGTSTP) stop_all(agent, terminal);
    if (signal > 0 && signal != SIGCHLD && signal != SIGTSTP) {
      forward(requests, agent, {signal, from_terminal});
    }
    if (requests.are_unread()) kill_once();
    // Checked also after the kill, as this takes the expiry from the timer: the agent may die late.
    if (watch.is_unresponsive(LivenessWatch::Clock::now())) {
      was_unresponsive = true;
      kill_once();
    }
  }
}

/// Kills until no descendant is left, including new children of processes that fork.
void kill_all_descendants(SurvivorWait& survivors) {
  survivors.begin();
  while (has_children()) {
    kill_and_reap_descendants();
    if (!has_children()) break;
    wait_for_child_signal(is_search_under_way() ? kSearchPause : survivors.time_left());
    survivors.report_if_due();
  }
  survivors.end();
}

/// Why the agent did not end by itself, as the end of a sentence; empty: it did.
std::string fault_of(const AgentEnd& agent, const StopRequests& requests) {
  if (requests.are_ignored()) return "did not react to " + signal_name(requests.first());
  if (agent.was_unresponsive) return "was unresponsive for longer than --lease";
  return agent.status.signal() != 0 ? "was " + agent.status.text() : "";
}

void clean_up_after(const AgentEnd& agent, const FinalMessage::Compose& final_message,
                    const StopRequests& requests, SurvivorWait& survivors) {
  kill_all_descendants(survivors);
  const std::string fault = fault_of(agent, requests);
  shared->final_message.send(final_message, fault.empty()
                                                ? "its ddprun ended (" + agent.status.text() + ")"
                                                : "its agent " + fault);
  if (*shared->cleanup_dir != '\0') remove_directory(shared->cleanup_dir);
  if (!fault.empty()) report("ddprun's agent " + fault + "; its workers were killed");
}

/// Returns the exit code, unless it dies by SIGINT.
int end_as(ExitStatus agent, const StopRequests& requests) {
  const int code = requests.are_ignored() ? 128 + requests.first() : agent.code();
  // A shell that waits for us also got the Ctrl-C. It acts on it only if we died by it.
  if (code == 128 + SIGINT && requests.are_from_ctrl_c()) die_by(SIGINT);
  return code;
}

}  // namespace

Result<int> guard(const std::function<int()>& agent, const FinalMessage::Compose& final_message,
                  Fd control) {
  const pid_t parent = getpid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  reserve_descriptors();  // the agent inherits copies
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return os_error("cannot share memory with the agent", errno);
  madvise(memory, sizeof(Shared), MADV_DONTDUMP);  // the final message may contain a key
  shared = static_cast<Shared*>(memory);           // zeros, as each member begins
  if (Result<> opened = liveness_timer.open(shared->liveness_settings); !opened)
    return opened.error();
  Result<Fd> signals = open_signal_fd();
  if (!signals) return signals.error();
  TerminalSettings terminal;
  const pid_t child = fork();
  if (child < 0) return os_error("cannot create the agent's process", errno);
  if (child == 0) {
    signals->reset();  // the agent opens its own
    control.reset();
    become_agent(parent);
    return guardian_is_gone() ? 128 + SIGKILL : agent();
  }
  expect_child(child);
  StopRequests requests(child);
  ControlInput input(std::move(control));
  SurvivorWait survivors(report);
  const AgentEnd end = wait_for_agent(child, *signals, input, requests, terminal, survivors);
  terminal.restore();
  clean_up_after(end, final_message, requests, survivors);
  return end_as(end.status, requests);
}

void arm_liveness_timer(BootClock::time_point until, std::chrono::milliseconds grace) {
  liveness_timer.set(until, grace);
}

void set_first_to_kill(const std::vector<pid_t>& workers) {
  if (shared == nullptr) return;
  const std::size_t count = std::min(workers.size(), std::size(shared->workers));
  for (std::size_t i = 0; i < count; ++i) shared->workers[i] = workers[i];
  if (count < std::size(shared->workers)) shared->workers[count] = 0;
}

void disarm_liveness_timer() {
  liveness_timer.clear();
}

bool guardian_is_gone() {
  return getppid() != guardian_pid;
}

void set_cleanup_dir(const std::string& path) {
  if (shared == nullptr || path.size() >= PATH_MAX) return;
  std::memcpy(shared->cleanup_dir, path.c_str(), path.size() + 1);
}

void set_log_style(const log::Style& style) {
  log::set_style(style);
  if (shared == nullptr) return;
  shared->log_format = style.format;
  shared->log_with_time = style.with_time;
  style.host.copy(shared->log_host, sizeof shared->log_host - 1);
}

void set_final_message(const FinalMessage::Route& route, std::string_view subject) {
  if (shared != nullptr) shared->final_message.set(route, subject);
}

void clear_final_message() {
  if (shared != nullptr) shared->final_message.clear();
}

void keep_quit_from_stopping() {
  if (shared != nullptr) shared->quit_stops_nothing = true;
}

void remove_directory(const std::string& path) {
  if (rmdir(path.c_str()) == 0) return;  // usually it is empty
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

}  // namespace ddprun::launcher
