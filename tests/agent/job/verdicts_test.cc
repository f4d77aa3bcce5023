// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <vector>

#include "agent/diagnosis/whereabouts.h"
#include "agent/job/first_failure.h"
#include "rendezvous/blame/suspect.h"
#include "tests/catch.h"

// From the facts of the kernel and py-spy about the workers to the name in the report: failures for
// which no running rank is to blame, and some for which one is.

namespace ddprun::agent {
namespace {

using launcher::ProcessSample;
using std::chrono::milliseconds;

constexpr milliseconds kHalfAnHour{1'800'000};
constexpr milliseconds kMoment{3};
constexpr int kExitOne = 1 << 8;

struct Survivor {
  ProcessSample sample;
  PythonStack stack = {};
};
using Survivors = std::vector<Survivor>;

PythonStack in_library(const std::string& function) {
  return {{function, "/v/site-packages/torch/distributed/distributed_c10d.py", 41},
          {"train", "/home/me/train.py", 88}};
}

PythonStack in_program(const std::string& function) {
  return {{function, "/home/me/data.py", 41}, {"train", "/home/me/train.py", 80}};
}

Survivor blocked(const std::string& call, PythonStack stack = {}) {
  return {{'S', false, call, 0, kHalfAnHour}, std::move(stack)};
}

Survivor runs(double load, PythonStack stack = {}) {
  return {{'R', false, "", load, kMoment}, std::move(stack)};
}

Survivors times(size_t count, const Survivor& survivor) {
  return Survivors(count, survivor);
}

Survivors operator+(Survivors some, const Survivors& others) {
  some.insert(some.end(), others.begin(), others.end());
  return some;
}

/// Rank 0 has failed with `words`; the survivors are ranks 1 and up.
struct Case {
  const char* name;
  std::string words;
  Survivors survivors;
  bool another_failed = false;  ///< the last survivor, for a reason of its own
  int wait_status = kExitOne;
};

std::string verdict(const Case& failure) {
  rendezvous::Failure first;
  first.pid = 7;
  first.wait_status = failure.wait_status;
  first.stderr_tail = failure.words;
  if (!is_consequence(first)) return "";
  rendezvous::WorkerExits exits;
  exits.failed = {{0, "exit 1", true}};
  const int last = static_cast<int>(failure.survivors.size());
  if (failure.another_failed) exits.failed.push_back({last, "exit 1", false});
  for (int rank = 1; rank <= last - (failure.another_failed ? 1 : 0); ++rank) {
    const Survivor& survivor = failure.survivors[static_cast<size_t>(rank - 1)];
    exits.places.push_back(place_of(rank, survivor.sample, survivor.stack));
  }
  exits.places = grouped(exits.places);
  rendezvous::Suspect suspect;
  suspect.add(exits, "gpu-01", 0, last + 1);
  return suspect.text();
}

const std::string kTimeOut =
    "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to "
    "complete\n";
const std::string kReset = "RuntimeError: Connection reset by peer\n";
const std::string kWatchdog =
    "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout\n";

const Survivor kInReduce = blocked("futex", in_library("all_reduce"));
const Survivor kSleeps = blocked("clock_nanosleep");

TEST_CASE("20 failures without a suspect name no rank") {
  Survivor debugged = kSleeps;
  debugged.sample.traced = true;
  Survivor of_unknown_time = kSleeps;
  of_unknown_time.sample.still.reset();
  Survivor naps = kSleeps;
  naps.sample.still = milliseconds(900);
  const std::vector<Case> cases = {
      {"a switch resets all connections", kReset, times(7, blocked("recv"))},
      {"the same, with stacks", kReset, times(7, kInReduce)},
      {"all wait, in different calls", kTimeOut,
       times(4, blocked("futex")) + times(3, blocked("epoll_wait"))},
      {"all but one wait, and that one may, too", kTimeOut,
       times(6, blocked("futex")) + times(1, blocked("wait4"))},
      {"NCCL's watchdog aborts while all spin", kWatchdog, times(7, runs(1)), false, SIGABRT},
      {"MPI spins, and one sleeps", kTimeOut, times(6, runs(1)) + times(1, kSleeps)},
      {"one computes for too long", kTimeOut, times(6, kInReduce) + times(1, runs(0.99))},
      {"the same in its own code, and others show no stack", kTimeOut,
       times(6, blocked("futex")) + times(1, runs(0.99, in_program("evaluate")))},
      {"all have begun to fail", kTimeOut, times(7, runs(0.2))},
      {"all wait in init_process_group", kTimeOut,
       times(7, blocked("poll", in_library("init_process_group")))},
      {"half are in another collective", kTimeOut,
       times(4, kInReduce) + times(3, blocked("futex", in_library("barrier")))},
      {"some are in backward", kTimeOut,
       times(4, kInReduce) + times(3, blocked("futex", {{"backward", "/v/lib/x.py", 5},
                                                        {"train", "/home/me/train.py", 88}}))},
      {"all wait for the GPU in the program's own line", kTimeOut,
       times(7, blocked("ioctl", in_program("train")))},
      {"the first one's own request timed out", "requests.exceptions.ReadTimeout: timed out\n",
       times(7, blocked("futex"))},
      {"all look for a file that the first one was to write", kTimeOut, times(7, kSleeps)},
      {"two sleep, each in another way", kTimeOut,
       times(5, kInReduce) + times(1, kSleeps) + times(1, blocked("pause"))},
      {"one has a debugger", kTimeOut, times(6, kInReduce) + times(1, debugged)},
      {"the kernel does not say for how long", kTimeOut,
       times(6, blocked("futex")) + times(1, of_unknown_time)},
      {"one naps between two tries", kTimeOut, times(6, kInReduce) + times(1, naps)},
      {"another failed for its own reason", kReset, times(5, kInReduce) + times(2, kSleeps), true},
  };
  CHECK(cases.size() == 20);
  for (const Case& failure : cases) {
    CAPTURE(failure.name);
    CHECK(verdict(failure) == "");
  }
}

TEST_CASE("the same failures with a suspect name it") {
  Survivor stopped = blocked("");
  stopped.sample.state = 'T';
  Survivor on_disk = blocked("read");
  on_disk.sample.state = 'D';
  const std::vector<Case> cases = {
      {"asleep", kTimeOut, times(6, blocked("futex")) + times(1, kSleeps)},
      {"asleep, with stacks", kWatchdog, times(6, kInReduce) + times(1, kSleeps), false, SIGABRT},
      {"stopped", kReset, times(6, runs(1)) + times(1, stopped)},
      {"waits for a disk", kTimeOut, times(6, blocked("recv")) + times(1, on_disk)},
      {"computes in its own code", kTimeOut,
       times(6, blocked("futex", {{"backward", "/v/lib/x.py", 5}, {"train", "/home/me/t.py", 8}})) +
           times(1, runs(0.99, in_program("evaluate")))},
      {"in its own code", kTimeOut,
       times(6, kInReduce) + times(1, blocked("recv", in_program("load_batch")))},
  };
  for (const Case& failure : cases) {
    CAPTURE(failure.name);
    CHECK(verdict(failure).starts_with("rank 7 (gpu-01) is the likely cause: "));
  }
}

}  // namespace
}  // namespace ddprun::agent
