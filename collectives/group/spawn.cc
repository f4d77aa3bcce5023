// SPDX-License-Identifier: Apache-2.0
#include "ddp/spawn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "base/blocking_io.h"
#include "base/fd.h"
#include "collectives/errors.h"
#include "collectives/group/spawned.h"
#include "collectives/stores/store_host.h"
#include "collectives/time_limit.h"

namespace ddp {
namespace {

using ddprun::Fd;
using Report = internal::SpawnReport;
using std::chrono::steady_clock;

[[noreturn]] void fail(ErrorKind kind, const std::string& what) {
  throw Error(kind, "ddp: spawn: " + what);
}
[[noreturn]] void fail_errno(const char* what) {
  fail(ErrorKind::system, std::string(what) + ": " + std::strerror(errno));
}

/// How long to wait for the cause if a rank has reported that it lost another: that one may not
/// have ended or reported yet. Usually the cause comes within a millisecond.
constexpr std::chrono::seconds kCauseLimit{1};

/// "SIGSEGV".
std::string name_signal(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? "signal " + std::to_string(number) : std::string("SIG") + name;
}

struct Process {
  int rank = 0;
  pid_t pid = 0;
  Fd pidfd;
  bool running = true;
  bool begun = false;  ///< came to its call of `fn`
};

/// The processes of one spawn. The destructor kills those that run.
class Processes {
 public:
  /// `number` counts the calls of spawn in this process.
  Processes(int nprocs, const std::function<void(int)>& fn, const SpawnOptions& options, int number)
      : options_(options), number_(number) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("pipe");
    report_pipe_.reset(ends[0]);
    Fd writing(ends[1]);
    ::fcntl(report_pipe_.get(), F_SETFL, O_NONBLOCK);
    internal::Listening store = internal::listen_on_loopback();
    std::fflush(nullptr);  // otherwise each process would print what is still buffered
    for (int rank = 0; rank < nprocs; ++rank) start(rank, nprocs, fn, store, writing.get());
    host_.emplace(std::move(store));
  }

  ~Processes() {
    for (Process& process : processes_) {
      if (!process.running) continue;
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
  }

  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  /// Waits for all processes, and stops the others when one fails. Throws the failure.
  void wait() {
    while (running() > 0) {
      wait_for_news();
      read_reports();
      for (Process& process : processes_) reap(process);
      if (failure_ && !stopping_ && !failed_by_loss()) stop();
    }
    read_reports();
    if (!failure_) return;
    const auto cause = std::find_if(reports_.begin(), reports_.end(), [&](auto& it) {
      return it.kind != Report::Kind::lost_another;
    });
    const bool has_cause = failure_is_report_ && cause != reports_.end();
    const Report* report = has_cause ? &*cause : failure_is_report_ ? &reports_.front() : nullptr;
    if (report == nullptr) throw Error(*failure_);
    throw failed(report->rank, std::string("failed: ") + report->text.data());
  }

 private:
  void start(int rank, int nprocs, const std::function<void(int)>& fn, internal::Listening& store,
             int pipe) {
    std::optional<internal::ProgramAgain> again;
    if (options_.start_method == StartMethod::exec) {
      again.emplace(rank, nprocs, store.port, number_, pipe);
    }
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) fail_errno("fork");
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
      if (again) again->execute();
      store.socket.reset();
      report_pipe_.reset();
      for (Process& older : processes_) older.pidfd.reset();
      for (const auto& [name, value] : internal::variables_of_rank(rank, nprocs, store.port)) {
        ::setenv(name.c_str(), value.c_str(), 1);
      }
      internal::run_spawned(rank, fn, pipe);
    }
    Process& process = processes_.emplace_back();
    process.rank = rank;
    process.pid = pid;
    process.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!process.pidfd) fail_errno("pidfd_open");
  }

  static Error failed(int rank, const std::string& how) {
    return {ErrorKind::peer_lost, "ddp: spawn: rank " + std::to_string(rank) + " " + how};
  }

  std::ptrdiff_t running() const {
    return std::count_if(processes_.begin(), processes_.end(), [](auto& it) { return it.running; });
  }

  void wait_for_news() {
    std::vector<pollfd> entries = {{report_pipe_.get(), POLLIN, 0}};
    for (const Process& process : processes_) {
      if (process.running) entries.push_back({process.pidfd.get(), POLLIN, 0});
    }
    const int limit = failure_ && !killed_ ? ddprun::poll_time(deadline_) : -1;
    if (::poll(entries.data(), entries.size(), limit) != 0) return;
    if (!stopping_) return stop();
    killed_ = true;
    signal_all(SIGKILL);
  }

  void read_reports() {
    Report report;
    while (::read(report_pipe_.get(), &report, sizeof(report)) == sizeof(report)) {
      if (report.kind == Report::Kind::begun) {
        processes_[static_cast<std::size_t>(report.rank)].begun = true;
      } else {
        reports_.push_back(report);
      }
    }
  }

  void reap(Process& process) {
    int status = 0;
    if (!process.running) return;
    const pid_t ended = ::waitpid(process.pid, &status, WNOHANG);
    if (ended == 0) return;
    process.running = false;
    if (ended < 0) {  // the program ignores SIGCHLD, or waited for the process itself
      if (!failure_) fail_by(process, false, "ended, and another thread took its exit status");
      return;
    }
    const bool by_signal = WIFSIGNALED(status);
    if (by_signal && is_ours(WTERMSIG(status))) return;
    read_reports();  // it wrote before it ended
    if (status == 0 && process.begun) return;
    const bool reported = std::any_of(reports_.begin(), reports_.end(),
                                      [&](auto& it) { return it.rank == process.rank; });
    // A process without a report did not fail by losing another.
    if (failure_ && (reported || !failed_by_loss())) return;
    fail_by(process, reported, describe_end(status));
  }

  static std::string describe_end(int status) {
    if (WIFSIGNALED(status)) return "was killed by " + name_signal(WTERMSIG(status));
    if (status == 0) return "ended before it called spawn";
    return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  }

  void fail_by(const Process& process, bool reported, const std::string& how) {
    if (!failure_) deadline_ = steady_clock::now() + kCauseLimit;
    failure_is_report_ = reported;
    failure_ = failed(process.rank, how);
  }

  /// Whether a process may have ended by this signal because this spawn sent it.
  bool is_ours(int number) const {
    return stopping_ && (number == SIGTERM || (killed_ && number == SIGKILL));
  }

  /// Whether all failures so far are of processes that lost another.
  bool failed_by_loss() const {
    return failure_is_report_ && std::all_of(reports_.begin(), reports_.end(), [](auto& it) {
             return it.kind == Report::Kind::lost_another;
           });
  }

  void stop() {
    stopping_ = true;
    deadline_ = steady_clock::now() + internal::bounded(options_.grace_period);
    signal_all(SIGTERM);
  }

  void signal_all(int number) {
    for (const Process& process : processes_) {
      if (process.running) ::kill(process.pid, number);  // ours until it is reaped
    }
  }

  const SpawnOptions options_;
  const int number_;
  Fd report_pipe_;
  std::vector<Process> processes_;
  std::optional<internal::StoreHost> host_;
  std::vector<Report> reports_;   // in the order of the failures
  std::optional<Error> failure_;  // the first
  bool failure_is_report_ = false;
  bool stopping_ = false;
  bool killed_ = false;
  steady_clock::time_point deadline_;  // for the cause, then for the grace period
};

std::ptrdiff_t threads() {
  std::error_code error;
  const std::filesystem::directory_iterator tasks("/proc/self/task", error);
  if (error) fail(ErrorKind::system, "cannot read /proc/self/task: " + error.message());
  return std::distance(begin(tasks), end(tasks));
}

#ifdef __SANITIZE_THREAD__
constexpr std::ptrdiff_t kOwnThreads = 2;  // the sanitizer has one
#else
constexpr std::ptrdiff_t kOwnThreads = 1;
#endif

void check_start(StartMethod method) {
  if (method == StartMethod::exec) {
    // A spawned process's main() would not come to this call, which is within `fn`.
    if (internal::is_spawned()) {
      fail(ErrorKind::usage, "a spawned process cannot spawn with StartMethod::exec");
    }
    return;
  }
  if (const auto count = threads(); count > kOwnThreads) {
    fail(ErrorKind::usage,
         "this process runs " + std::to_string(count) +
             " threads, and a fork has only the one that calls: call it before anything starts "
             "threads (CUDA, a store that is served here, a thread pool), or with "
             "StartMethod::exec");
  }
}

}  // namespace

void spawn(int nprocs, const std::function<void(int rank)>& fn, const SpawnOptions& options) {
  if (nprocs < 1) fail(ErrorKind::usage, "nprocs must be above 0, not " + std::to_string(nprocs));
  if (!fn) fail(ErrorKind::usage, "there is no function to run");
  if (options.grace_period.count() < 0) {
    fail(ErrorKind::usage, "the grace period cannot be below 0, as " +
                               internal::name_time(options.grace_period) + " is");
  }
  static std::atomic<int> calls = 0;
  const int number = ++calls;
  if (const auto part = internal::find_part(number)) {
    if (part->is_later) return;
    internal::run_spawned(part->rank, fn, part->pipe);
  }
  check_start(options.start_method);
  Processes processes(nprocs, fn, options, number);
  processes.wait();
}

}  // namespace ddp
