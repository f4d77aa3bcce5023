// SPDX-License-Identifier: Apache-2.0
// One rank that uses devices as a program might do by mistake, or that passes devices to
// init_process_group(): device_places SCENARIO [TIMEOUT] (milliseconds, for calls that cannot end).
// The exit code is as device_worker's.

#include <algorithm>
#include <ddp/distributed_data_parallel.h>
#include <ddp/process_group.h>
#include <map>
#include <optional>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/collectives/backends/nccl/device_floats.h"

using namespace ddp_tests;
using ddp::DeviceSpan;
using ddp::ProcessGroup;
using ddprun::tests::check;

namespace {

constexpr std::chrono::minutes kPatience(1);
std::chrono::milliseconds limit(60'000);  // for calls that cannot end; others may take longer

ProcessGroup join_on(std::optional<int> device) {
  return ddp::init_process_group({.backend = "nccl", .timeout = kPatience, .device = device});
}

int device_after(int device) {
  return device + 1 < count_devices() ? device + 1 : 0;
}

/// Ranks may share a device; NCCL 2.30 allows that.
int own_device() {
  return std::atoi(std::getenv("RANK")) % std::max(count_devices(), 1);
}

/// Uses the default backend without a call on a device: a child may still use the driver.
void host_only() {
  auto group = ddp::init_process_group({.timeout = kPatience});
  check(group.backend() == "nccl", "backend " + group.backend());
  std::vector<float> host = {1};
  group.all_reduce(host);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(count_devices() > 0 ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  check(status == 0, "a child finds no GPU");
}

/// Buffers and streams of another device, and memory of no device, are refused.
void elsewhere() {
  ProcessGroup group = join_on({});
  use_device(device_after(own_device()));
  Floats there(make_stream(), 1);
  use_device(own_device());
  Floats here(make_stream(), own(group));
  std::vector<float> host(kCount);
  group.all_reduce(here.span());
  refused([&] { group.all_reduce(there.span()); });
  refused([&] { group.all_reduce(here.span(), there.span()); });
  refused([&] { group.send(there.span(), 1 - group.rank()); });
  refused(
      [&] { group.all_reduce(DeviceSpan<float>{here.span().data, kCount, there.span().stream}); });
  refused([&] { group.all_reduce(DeviceSpan<float>{host.data(), kCount, here.span().stream}); });
  const std::span<float> nothing(there.span().data, 0);
  group.all_reduce(DeviceSpan<float>{nothing.data(), 0, here.span().stream});
  here.expect(sum_of_ranks(group), "a sum after misuse");
}

/// A model's parameters determine where its gradients are; the thread's current device does not.
void first_model(ProcessGroup& group) {
  use_device(own_device());
  Floats weights(make_stream(), own(group));
  use_device(device_after(own_device()));
  ddp::DistributedDataParallel model(group, {ddp::Buffer(weights)});
  model.gradient_ready(0);
  model.finish();
  use_device(own_device());
  weights.expect(1, "the parameters of rank 0");
}

/// The first call's buffers determine the device; the thread's current device does not.
void first_call() {
  ProcessGroup group = join_on({});
  use_device(own_device());
  Floats data(make_stream(), own(group));
  use_device(device_after(own_device()));
  group.all_reduce(data.span());
  use_device(own_device());
  data.expect(sum_of_ranks(group), "a sum on the buffer's device");
  bool is_called = false;
  group.iall_reduce(data.span()).then([&] { is_called = true; }).wait();
  check(is_called, "what follows a call on a device was not called");
  data.expect(sum_of_ranks(group) * static_cast<float>(group.size()), "what it found");
  auto others = group.split(0);
  first_model(*others);
}

void capture_one(ProcessGroup& group, const Floats& data) {
  const CUstream stream = data.span().stream;
  DRIVER(cuStreamSynchronize, stream);
  DRIVER(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  group.all_reduce(data.span());
  CUgraph graph = nullptr;
  CUgraphExec launchable = nullptr;
  DRIVER(cuStreamEndCapture, stream, &graph);
  DRIVER(cuGraphInstantiate, &launchable, graph, 0);
  DRIVER(cuGraphLaunch, launchable, stream);
  DRIVER(cuStreamSynchronize, stream);
  DRIVER(cuGraphExecDestroy, launchable);
  DRIVER(cuGraphDestroy, graph);
}

/// Ranks that name their devices are connected: the first call may be captured, also of a part.
void eager() {
  refused([] { (void)join_on(99); });
  refused([] { (void)ddp::init_process_group({.backend = "gloo", .device = 0}); });
  ProcessGroup group = join_on(own_device());
  use_device(own_device());
  Floats data(make_stream(), own(group));
  capture_one(group, data);
  data.expect(sum_of_ranks(group), "a sum by a graph");
  auto part = group.split(0);
  data.write(own(group));
  capture_one(*part, data);
  data.expect(sum_of_ranks(group), "a sum by a part's graph");
}

/// Parts are connected through the group while its calls are under way, and outlive it.
void parts() {
  std::optional<ProcessGroup> whole = join_on(own_device());
  use_device(own_device());
  Floats data(make_stream(), own(*whole));
  const auto work = whole->iall_reduce(data.span());
  const std::vector<int> ends = {whole->size() - 1, 0};
  auto outer = whole->new_group(ends);
  auto inner = whole->split(whole->rank() == 0 ? -1 : 1, -whole->rank());
  work.wait();
  data.expect(sum_of_ranks(*whole), "a sum while parts are made");
  whole.reset();
  for (ProcessGroup* part : {outer ? &*outer : nullptr, inner ? &*inner : nullptr}) {
    if (part == nullptr) continue;
    data.write(own(*part));
    part->broadcast(data.span(), part->size() - 1);
    data.expect(static_cast<float>(part->size()), "what the last rank of a part has");
    part->barrier();
  }
}

/// A call comes after the calls before it, whatever streams they are in: also in a destroyed stream
/// whose handle another one has now, and in streams of threads, which share a handle.
void passing_streams() {
  ProcessGroup group = join_on({});
  use_device(own_device());
  Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  const auto sum = sum_of_ranks(group);
  const auto expect_order = [&](const char* what, CUstream first, const auto& make_second) {
    data.write(own(group));
    DRIVER(cuStreamSynchronize, data.span().stream);
    std::optional<Gate> gate;
    std::thread([&] {
      use_device(own_device());
      gate.emplace(first);
      group.all_reduce(DeviceSpan<float>{data.span().data, kCount, first});
    }).join();
    const CUstream second = make_second();
    group.all_reduce(DeviceSpan<float>{data.span().data, kCount, second}, ddp::ReduceOp::max);
    gate->open();
    DRIVER(cuCtxSynchronize);
    data.expect(sum, what);
  };
  expect_order("streams of threads", CU_STREAM_PER_THREAD, [] { return CU_STREAM_PER_THREAD; });
  const CUstream gone = make_stream();
  expect_order("a stream that is gone", gone, [&] {
    DRIVER(cuStreamDestroy, gone);
    return make_stream();
  });
}

/// How often this thread sleeps in so many calls. The stream is stopped, so nothing runs beside the
/// thread.
long sleeps_in(ProcessGroup& group, const Floats& data, int calls) {
  Gate gate(data.span().stream);
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_THREAD, &before);
  for (int i = 0; i < calls; ++i) group.all_reduce(data.span());
  ::getrusage(RUSAGE_THREAD, &after);
  gate.open();
  DRIVER(cuStreamSynchronize, data.span().stream);
  return after.ru_nvcsw - before.ru_nvcsw;
}

/// A short wait for NCCL does not put the thread to sleep. On a busy machine a thread may sleep for
/// other reasons, but not always.
void spin() {
  constexpr int kCalls = 50;
  constexpr int kTimes = 20;
  ProcessGroup group = join_on({});
  use_device(own_device());
  const Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  DRIVER(cuStreamSynchronize, data.span().stream);
  long least = kCalls;
  for (int time = 0; time < kTimes && least >= kCalls / 2; ++time) {
    least = std::min(least, sleeps_in(group, data, kCalls));
  }
  check(least < kCalls / 2, std::to_string(least) + " sleeps");
}

/// Rank 1 never makes the first call, whose limit differs from the one that the group was made
/// with.
void impatient() {
  ProcessGroup group = join_on({});
  use_device(own_device());
  group.set_timeout(std::chrono::milliseconds(1500));
  if (group.rank() == 1) ::pause();
  const Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
}

/// NCCL may not connect the group, or a part of it.
void connect() {
  ProcessGroup group =
      ddp::init_process_group({.backend = "nccl", .timeout = limit, .device = own_device()});
  auto part = group.split(0);
}

/// Makes a graph that has a call of the group until the process ends.
void capture_and_keep(ProcessGroup& group, const Floats& data) {
  DRIVER(cuStreamSynchronize, data.span().stream);
  DRIVER(cuStreamBeginCapture, data.span().stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  group.all_reduce(data.span());
  CUgraph graph = nullptr;
  DRIVER(cuStreamEndCapture, data.span().stream, &graph);
}

/// The group fails while a graph has calls.
void keep_graph() {
  ProcessGroup group = join_on(own_device());
  use_device(own_device());
  const Floats data(make_stream(), own(group));
  capture_and_keep(group, data);
  if (group.rank() == 1) ::_exit(0);
  group.set_timeout(limit);
  const ddp::Work work = group.iall_reduce(data.span());
  DRIVER(cuStreamSynchronize, data.span().stream);
  work.wait(std::chrono::minutes(1));
}

/// An exception is thrown while a graph has calls; no other rank could fail.
void throw_beside_graph() {
  ProcessGroup group = join_on(own_device());
  use_device(own_device());
  const Floats data(make_stream(), own(group));
  capture_and_keep(group, data);
  group.set_timeout(std::chrono::seconds(5));
  throw std::runtime_error("thrown beside a graph");
}

/// NCCL may block in the third call while the second is under way.
void calls() {
  ProcessGroup group = join_on({});
  use_device(own_device());
  const Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  DRIVER(cuStreamSynchronize, data.span().stream);
  group.set_timeout(limit);
  Gate gate(data.span().stream);
  for (int i = 0; i < 2; ++i) group.all_reduce(data.span());
  gate.open();
  DRIVER(cuStreamSynchronize, data.span().stream);
}

using Scenario = void (*)();
const std::map<std::string, Scenario> kScenarios = {
    {"host-only", host_only},
    {"elsewhere", elsewhere},
    {"first-call", first_call},
    {"eager", eager},
    {"parts", parts},
    {"passing-streams", passing_streams},
    {"spin", spin},
    {"impatient", impatient},
    {"connect", connect},
    {"keep-graph", keep_graph},
    {"throw-beside-graph", throw_beside_graph},
    {"calls", calls},
};

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  if (argc > 2) limit = std::chrono::milliseconds(std::atoi(argv[2]));
  return ddprun::tests::exit_code_of([&] { kScenarios.at(scenario)(); });
}
