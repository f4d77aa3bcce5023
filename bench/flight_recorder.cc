// SPDX-License-Identifier: Apache-2.0
// The cost of recording a call: bench_flight_recorder [CALLS]. Nanoseconds for the begin and end of
// a call, including two clock reads, and for the clock reads alone; the least of ten rounds.

#include "collectives/failure/flight_recorder.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace {

using ddp::internal::Call;
using ddp::internal::FlightRecorder;
using std::chrono::steady_clock;

template <class F>
double least(int calls, F work) {
  double best = 1e9;
  for (int round = 0; round < 10; ++round) {
    const auto start = steady_clock::now();
    for (int i = 0; i < calls; ++i) work();
    const std::chrono::duration<double, std::nano> time = steady_clock::now() - start;
    best = std::min(best, time.count() / calls);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 1'000'000;
  FlightRecorder& recorder = FlightRecorder::of_process();
  const int group = recorder.add({"group", "cpu", 0, {0, 1}});
  Call call{.count = 100, .operation = ddp::internal::Operation::all_reduce};
  const double recorded = least(calls, [&] {
    ++call.number;
    const auto ticket = recorder.begin(group, call, steady_clock::now());
    recorder.end(ticket, true, steady_clock::now());
  });
  volatile std::int64_t seen = 0;
  const double clock = least(calls, [&] {
    seen = steady_clock::now().time_since_epoch().count();
    seen = steady_clock::now().time_since_epoch().count();
  });
  std::printf("recorded call %6.1f ns\nclock, twice  %6.1f ns\n", recorded, clock);
  return recorder.entries().size() == FlightRecorder::kSize ? 0 : 1;
}
