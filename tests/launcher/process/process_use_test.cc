// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/process_use.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

using Uses = std::vector<ProcessUse>;

/// A child that repeats `action` until it is killed.
class Repeating {
 public:
  template <class Action>
  explicit Repeating(Action action) : pid_(fork()) {
    while (pid_ == 0) action();
  }
  Repeating(const Repeating&) = delete;
  Repeating& operator=(const Repeating&) = delete;
  ~Repeating() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

/// Samples until `is_expected` holds for the change between two samples.
template <class Expected>
void until(Expected is_expected) {
  using Clock = std::chrono::steady_clock;
  Uses before = uses_below(getpid());
  for (auto then = Clock::now();;) {
    usleep(50'000);
    Uses now = uses_below(getpid());
    const std::chrono::duration<double> time = Clock::now() - then;
    if (is_expected(change_of(before, now, time.count()))) return;
    then = Clock::now();
    before = std::move(now);
  }
}

ProcessUse use_of(pid_t pid, double cpu, std::uint64_t bytes) {
  return {pid, 1, 100, cpu, 0, bytes, false};
}

TEST_CASE("the kernel's text is parsed, also for a process with a strange name") {
  const auto use = parse_stat_use(
      "41 (a ) R (b) S 7 41 41 0 -1 4194304 100 200 3 4 150 50 20 30 20 0 1 0 98765 1000 5 18446");
  REQUIRE(use);
  CHECK(use->pid == 41);
  CHECK(use->parent == 7);
  CHECK(use->cpu_seconds == 250.0 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  CHECK(use->started == 98'765);
  CHECK(use->resident == 5 * static_cast<std::uint64_t>(getpagesize()));
  CHECK_FALSE(parse_stat_use("41 (a) Z 7 41 41 0 -1 4 1 2 3 4 1 5 2 3 20 0 1 0 9 1 5 1"));
  CHECK_FALSE(parse_stat_use("41 (a) S 7 41"));
  CHECK_FALSE(parse_stat_use(""));
  CHECK(parse_proc_io("rchar: 1000\nwchar: 24\nsyscr: 5\nread_bytes: 4096\n") == 1'024);
  CHECK(parse_proc_io("") == 0);
}

TEST_CASE("a process's use is read") {
  const double before = use_of_process(getpid()).cpu_seconds;
  while (use_of_process(getpid()).cpu_seconds <= before) {
  }
  CHECK(use_of_process(getpid()).resident > 100'000);
}

TEST_CASE("little use is no sign of progress, for each process by itself") {
  const Uses before = {use_of(5, 10, 1'000), use_of(6, 20, 2'000)};
  const auto change = [&before](const Uses& now) { return change_of(before, now, 60); };
  CHECK_FALSE(change(before).cpu);
  CHECK_FALSE(change(before).work);
  CHECK_FALSE(change({use_of(5, 12.9, 1'000), use_of(6, 22.9, 2'000)}).cpu);
  CHECK(change({use_of(5, 10, 1'000), use_of(6, 23.1, 2'000)}).cpu);
  CHECK_FALSE(change({use_of(5, 10, 500'000), use_of(6, 20, 500'000)}).work);
  CHECK(change({use_of(5, 10, 1'000), use_of(6, 20, 2'000'000)}).work);
  CHECK(change({use_of(5, 10, 1'000)}).work);
  CHECK(change({use_of(5, 10, 1'000), use_of(6, 20, 2'000), use_of(7, 0, 0)}).work);
  ProcessUse other = use_of(6, 0, 0);
  other.started = 200;
  CHECK(change({use_of(5, 10, 1'000), other}).work);
}

TEST_CASE("a process that sleeps shows no sign") {
  const Repeating sleeper([] { pause(); });
  until([](const UseChange& change) { return !change.cpu && !change.work; });
}

TEST_CASE("a process that computes, such as a compiler or waiting MPI, uses the processor") {
  const Repeating computing([] {});
  until([](const UseChange& change) { return change.cpu && !change.work; });
}

TEST_CASE("a process that writes, such as a checkpoint, works, though it hardly computes") {
  const Repeating writing([] {
    static const int file = open("/dev/null", O_WRONLY);
    static const char bytes[65'536] = {};
    if (::write(file, bytes, sizeof bytes) < 0) _exit(1);
    usleep(20'000);
  });
  until([](const UseChange& change) { return change.work; });
}

TEST_CASE("a process's descendants count, too") {
  const Repeating parent([] {
    const pid_t child = fork();
    if (child != 0) waitpid(child, nullptr, 0);
    pause();
  });
  const auto child = [&parent] {
    const Uses uses = uses_below(getpid());
    const auto found = std::ranges::find(uses, parent.pid(), &ProcessUse::parent);
    return found == uses.end() ? 0 : found->pid;
  };
  while (child() == 0) {
  }
  CHECK(parent_of(child()) == parent.pid());
  CHECK(parent_of(parent.pid()) == getpid());
  kill(child(), SIGKILL);
  while (child() != 0) {
  }
}

TEST_CASE("the reader of stacks for a user is not one of the workers' processes") {
  const Repeating reader([] {
    const pid_t parent = getpid();
    prctl(PR_SET_NAME, kStackReader);
    if (fork() == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(0);  // the parent was killed before
      prctl(PR_SET_NAME, "py-spy");
    }
    pause();
  });
  while (!uses_below(getpid()).empty()) {
  }
  CHECK(use_of_process(reader.pid()).pid == reader.pid());
}

TEST_CASE("a debugger is detected") {
  const Repeating debugged([] {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
  });
  for (bool is_traced = false; !is_traced;) {
    const Uses uses = uses_below(getpid());
    REQUIRE(uses.size() == 1);
    is_traced = uses[0].traced;
  }
}

}  // namespace
}  // namespace ddprun::launcher
