// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/process_sample.h"

#include <chrono>
#include <csignal>
#include <ctime>
#include <map>
#include <set>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "launcher/kernel/topology.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

using namespace std::chrono_literals;

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

  /// Samples until the process is in `state`.
  ProcessSample sample_in(char state) const {
    for (;;) {
      const ProcessSample sample = sample_processes({pid_}).front();
      if (sample.state == state && (state == 'T' || !sample.call.empty())) return sample;
      usleep(1'000);
    }
  }

 private:
  pid_t pid_;
};

TEST_CASE("the state of a process is read, and whether a debugger traces it") {
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

TEST_CASE("a process that sleeps, is stopped or has ended has that state") {
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

TEST_CASE("the time that a process stands still grows, up to its age") {
  timespec began{}, now{};
  clock_gettime(CLOCK_BOOTTIME, &began);
  const Sleeper sleeper;
  if (!sleeper.sample_in('S').still) return;  // the kernel has no /proc/PID/sched
  ProcessSample sample;
  while ((sample = sleeper.sample_in('S')).still.value_or(0ms) < 50ms) usleep(1'000);
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto age = 1'000 * (now.tv_sec - began.tv_sec) + (now.tv_nsec - began.tv_nsec) / 1'000'000;
  CHECK(sample.still->count() <= age + 20);  // its start is known to 10 ms
}

TEST_CASE("the CPU on which a process ran last, and its start, are parsed") {
  const auto run = parse_last_run(
      "17421 (a ) b) S 17410 17410 5232 0 -1 4194304 2863 6627 2 0 2 2 4 2 20 0 1 0 6189978 "
      "16961536 3344 18446744073709551615 93883433869312 93883433869653 140736014873200 0 0 0 0 "
      "16781312 2 0 0 0 17 113 0 0 0 0 0 93883433881008 93883433881624\n");
  REQUIRE(run);
  CHECK(run->cpu == 113);
  CHECK(run->started == 6189978 * 1e3 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  CHECK_FALSE(parse_last_run(""));
  CHECK_FALSE(parse_last_run("17421 (a) S 17410"));
}

TEST_CASE("the time still is measured on the clock of the process's CPU, within its age") {
  const LastRun run = {.cpu = 1, .when = 5'000, .started = 100'000};
  CHECK(time_still(run, 5'250.9, 200'000) == 250ms);
  CHECK(time_still(run, 4'000, 200'000) == 0ms);
  CHECK(time_still(run, 905'000, 104'900) == 4'900ms);
  CHECK(time_still(run, 905'000, 99'990) == 0ms);
}

TEST_CASE("each CPU's clock is read on it, and a CPU that is not ours has none") {
  if (!last_run_of_this_thread()) return;
  const std::vector<int> allowed = allowed_cpus();
  const int missing = 100'000;
  std::set<int> cpus(allowed.begin(), allowed.end());
  cpus.insert(missing);
  const std::map<int, double> clocks = cpu_clocks(cpus, last_run_of_this_thread);
  CHECK_FALSE(clocks.contains(missing));
  for (const auto& [cpu, clock] : clocks) CHECK(clock > 0);
  CHECK(allowed_cpus() == allowed);
}

}  // namespace
}  // namespace ddprun::launcher
