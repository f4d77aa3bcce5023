// SPDX-License-Identifier: Apache-2.0
#include "launcher/process_sample.h"

#include <csignal>
#include <ctime>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

/// A child that sleeps until it is killed.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    const timespec hour = {3'600, 0};
    while (pid_ == 0) clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, nullptr);
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  ~Sleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }

  /// Looks until it is in `state`.
  ProcessSample sample_in(char state) const {
    for (;;) {
      const ProcessSample sample = sample_process(pid_);
      if (sample.state == state && (state == 'T' || !sample.call.empty())) return sample;
      usleep(1'000);
    }
  }

 private:
  pid_t pid_;
};

TEST_CASE("the state of a process is read, and whether a debugger has it") {
  const ProcessSample plain = parse_proc_status(
      "Name:\tpython3\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t41\nTracerPid:\t0\nUid:\t0\n");
  CHECK(plain.state == 'S');
  CHECK_FALSE(plain.traced);
  const ProcessSample traced = parse_proc_status("State:\tt (tracing stop)\nTracerPid:\t17\n");
  CHECK(traced.state == 't');
  CHECK(traced.traced);
  CHECK(parse_proc_status("").state == '?');
  CHECK(parse_proc_status("Name:\tState:\n").state == '?');
}

TEST_CASE("the system call has a name, if a process is in one") {
  const std::string sleep = std::to_string(SYS_clock_nanosleep);
  CHECK(parse_proc_syscall(sleep + " 0x1 0x1 0x7ffdf8e75ab0 0x0 0x0 0x0 0x7f 0x7f\n") ==
        "clock_nanosleep");
  CHECK(parse_proc_syscall("99999 0x1 0x1\n") == "call 99999");
  CHECK(parse_proc_syscall("running\n") == "");
  CHECK(parse_proc_syscall("-1 0x7ffd2c4ff0f0 0x7f3b\n") == "");
  CHECK(parse_proc_syscall("") == "");
}

TEST_CASE("numbers of the scheduler are read by their names") {
  const std::string sched =
      "python3 (32471, #threads: 6)\n"
      "-------------------------------------------------------------------\n"
      "se.exec_start                                :      25204607.741712\n"
      "se.avg.runnable_avg                          :                  338\n"
      "policy                                       :                    0\n";
  CHECK(parse_proc_sched(sched, "se.exec_start") == 25204607.741712);
  CHECK(parse_proc_sched(sched, "se.avg.runnable_avg") == 338);
  CHECK_FALSE(parse_proc_sched(sched, "se.exec").has_value());
  CHECK_FALSE(parse_proc_sched("", "se.exec_start").has_value());
  CHECK_FALSE(parse_proc_sched("se.exec_start : x\n", "se.exec_start").has_value());
}

TEST_CASE("a process that sleeps, is stopped or has ended is seen to do so") {
  const Sleeper sleeper;
  const ProcessSample asleep = sleeper.sample_in('S');
  CHECK(asleep.call == "clock_nanosleep");
  kill(sleeper.pid(), SIGSTOP);
  CHECK_FALSE(sleeper.sample_in('T').traced);
  kill(sleeper.pid(), SIGKILL);
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(sleeper.pid()), &info, WEXITED | WNOWAIT);
  CHECK(sample_process(sleeper.pid()).state == 'Z');
}

TEST_CASE("how long a process stands still grows") {
  const Sleeper sleeper;
  if (!sleeper.sample_in('S').still) return;  // the kernel has no /proc/PID/sched
  while (*sleeper.sample_in('S').still < std::chrono::milliseconds(50)) usleep(1'000);
  CHECK(*sleeper.sample_in('S').still >= std::chrono::milliseconds(50));
}

}  // namespace
}  // namespace ddprun::launcher
