// SPDX-License-Identifier: Apache-2.0
// One process with a rank on each GPU: device_local SCENARIO [TIMEOUT] (milliseconds, for calls
// that cannot end). The exit code is as device_worker's.

#include <ddp/local_devices.h>
#include <memory>
#include <unistd.h>

#include "tests/collectives/backends/nccl/device_floats.h"

using namespace ddp_tests;
using ddp::ProcessGroup;
using ddp::Work;

namespace {

/// The ranks, and floats of each rank.
struct Gpus {
  std::vector<ProcessGroup> ranks;
  std::vector<std::unique_ptr<Floats>> data;

  explicit Gpus(const std::vector<int>& devices)
      : ranks(ddp::init_local_devices(devices, std::chrono::minutes(1))) {
    for (const ProcessGroup& rank : ranks) {
      use_device(rank.rank());
      data.push_back(std::make_unique<Floats>(make_stream(), own(rank)));
    }
  }

  /// Each rank makes the call.
  void all_reduce() {
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].all_reduce(*data[i]);
  }
  std::vector<Work> iall_reduce() {
    std::vector<Work> works;
    for (std::size_t i = 0; i < ranks.size(); ++i) works.push_back(ranks[i].iall_reduce(*data[i]));
    return works;
  }

  /// Streams continue whether a call succeeded or was given up.
  void expect_streams_to_go_on() const {
    for (const auto& floats : data) DRIVER(cuStreamSynchronize, floats->span().stream);
  }
};

/// Prints the error that `work` throws.
template <class F>
void expect_failure(F work) {
  try {
    work();
    wrong("accepted");
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
  }
}

void all() {
  Gpus gpus({});
  std::vector<Work> works;
  ddp::group_call([&] { works = gpus.iall_reduce(); });
  for (const Work& work : works) work.wait();
  ddp::group_call([&] { gpus.all_reduce(); });
  ProcessGroup& first = gpus.ranks.front();
  const float sum = sum_of_ranks(first) * static_cast<float>(first.size());
  for (const ProcessGroup& rank : gpus.ranks) {
    use_device(rank.rank());
    gpus.data[static_cast<std::size_t>(rank.rank())]->expect(sum, "a sum over a process's GPUs");
  }
  refused([&] { first.barrier(); });
  if (first.size() > 1) {
    const std::vector<int> excluded = {1};
    refused([&] { first.all_reduce(*gpus.data[1]); });
    refused([&] { (void)first.shrink({}); });
    refused([&] { (void)first.shrink(excluded); });
  }
  refused([&] { (void)ddp::init_local_devices({0, 99}); });
  refused([&] { (void)ddp::init_local_devices({0, 0}); });
}

/// The second call of the last rank will be refused: with `begun`, a begun one.
void refuse(const std::vector<int>& devices, bool begun) {
  Gpus gpus(devices);
  ddp::group_call([&] { gpus.all_reduce(); });
  expect_failure([&] {
    ddp::group_call([&] { begun ? static_cast<void>(gpus.iall_reduce()) : gpus.all_reduce(); });
  });
  gpus.expect_streams_to_go_on();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    expect_failure([&] { gpus.ranks[i].all_reduce(*gpus.data[i]); });
  }
}

/// A group call that lasts longer than its calls should, with `for_ever` forever.
void linger(std::chrono::milliseconds timeout, bool for_ever) {
  Gpus gpus({0, 1});
  ddp::group_call([&] { gpus.all_reduce(); });
  for (ProcessGroup& rank : gpus.ranks) rank.set_timeout(timeout);
  expect_failure([&] {
    ddp::group_call([&] {
      const std::vector<Work> works = gpus.iall_reduce();
      if (for_ever) ::pause();
      works.front().wait(std::chrono::minutes(1));
    });
  });
  gpus.expect_streams_to_go_on();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "all";
  const std::chrono::milliseconds timeout(argc > 2 ? std::atoi(argv[2]) : 60'000);
  return ddprun::tests::exit_code_of([&] {
    if (scenario == "all") return all();
    if (scenario == "refuse-one") return refuse({0}, false);
    if (scenario == "refuse-call") return refuse({0, 1, 2}, false);
    if (scenario == "refuse-begun") return refuse({0, 1, 2}, true);
    if (scenario == "linger") return linger(timeout, false);
    if (scenario == "stay") return linger(timeout, true);
    const Gpus gpus({0, 1, 2});  // "connect"
  });
}
