#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker that polls for its GPU inside the driver, at 100 % CPU, makes no progress by that: ddprun reports the hang,
# and names the rank that sleeps. A worker that comes back from the driver again and again makes progress, even if it
# writes nothing and never sleeps.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v g++ >/dev/null || skip "there is no g++"
python3 -c 'import ctypes; ctypes.CDLL("libdw.so.1")' 2>/dev/null || skip "there is no python3 or libdw"

cat >"$work/driver.cc" <<'END'
#include <ctime>
#include <sched.h>
volatile unsigned long passes;
__attribute__((noinline)) static bool is_done(const volatile unsigned* flag, unsigned target) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_RAW, &now);
  passes = passes + (now.tv_nsec & 1);
  return *flag >= target;
}
extern "C" void cuStreamSynchronize(const volatile unsigned* flag, unsigned target, bool yields) {
  while (!is_done(flag, target)) if (yields) sched_yield();
  passes = passes + 1;
}
END
cat >"$work/train.cc" <<'END'
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <unistd.h>
extern "C" void cuStreamSynchronize(const volatile unsigned* flag, unsigned target, bool yields);
volatile unsigned flag;  // of the GPU: how many steps it has done
volatile unsigned sum;
__attribute__((noinline)) void forward(unsigned step) {
  volatile char work[24'000];
  for (unsigned i = 0; i < sizeof work; ++i) work[i] = static_cast<char>(step + i);
  sum = sum + work[step];
}
__attribute__((noinline)) void train(unsigned steps, bool yields) {
  for (unsigned step = 1; step <= steps; ++step) {
    forward(step);
    cuStreamSynchronize(&flag, step, yields);
  }
}
double used() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}
__attribute__((noinline)) void load_batch() { pause(); sum = sum + 1; }
int main(int, char** arguments) {
  const unsigned steps = std::atoi(arguments[1]);
  const char* const failure = arguments[2];  // a file: rank 2 fails when it is there
  const char rank = *std::getenv("RANK");
  std::puts("ready");
  std::fflush(stdout);
  if (steps == 1 && rank == '0') load_batch();
  if (steps > 1) {
    std::thread([steps] {
      for (double before = used(); flag < steps; flag = flag + 1) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (flag % 25 != 24) continue;
        // Where others leave it no CPU its time is no sign of progress.
        if (used() - before < 0.15 && write(1, "wants a CPU\n", 12) < 0) std::abort();
        before = used();
      }
    }).detach();
  }
  if (failure && rank == '2') {
    while (access(failure, F_OK) != 0) usleep(20'000);
    std::fputs("Watchdog caught collective operation timeout\n", stderr);
    return 1;
  }
  train(steps, rank == '2');
}
END
g++ -O2 -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1" "$work/driver.cc"
g++ -g -O2 -pthread -o "$work/train" "$work/train.cc" -L"$work" -l:libcuda.so.1 -Wl,-rpath,"$work"

run --nproc_per_node 3 --hang_timeout 3 "$work/train" 1
expect_exit 124
expect_stderr 'rank 0 \(.*\) is the likely cause: asleep \(pause\) in load_batch.* for .*, while ranks 1, 2 waited'
expect_stderr ' ranks 1, 2 \(.*\): waiting for its GPU \(cuStreamSynchronize\) in train.* \(train\.cc:[0-9]+\)'

run --nproc_per_node 2 --hang_timeout 2 "$work/train" 160
expect_exit 0
expect_no_stderr 'has made progress'

# The report of a failure by a lost peer names that rank, too.
start --nproc_per_node 3 "$work/train" 1 "$work/go"
for rank in 0 1 2; do wait_for_stdout "^\[$rank\] ready"; done
sleeper=$(worker_of 0)
[ -r "/proc/$sleeper/sched" ] || skip "the kernel does not say how long a process has not run"
cat >"$work/stands_still.py" <<'END'
import os, re, sys
def ran(pid): return float(re.search(r"se.exec_start *: *([0-9.]+)", open(f"/proc/{pid}/sched").read())[1])
cpu = open(f"/proc/{sys.argv[1]}/stat").read().rsplit(")", 1)[1].split()[36]
os.sched_setaffinity(0, {int(cpu)})  # each has a clock of its own
sys.exit(ran("self") - ran(sys.argv[1]) < 5_500)
END
wait_until python3 "$work/stands_still.py" "$sleeper"
touch "$work/go"
finish
expect_exit 1
expect_stderr 'rank 0 \(.*\) is the likely cause: asleep \(pause\) for .*, while ranks 1, 2 waited'
expect_no_process_left
