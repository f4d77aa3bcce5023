// SPDX-License-Identifier: Apache-2.0
// One rank that does what a test asks with buffers on a device: device_worker SCENARIO [TIMEOUT]
// (milliseconds, for calls that cannot end), over nccl or the backend that DDP_TEST_BACKEND names.
// Exit code: 0 success, 1 a wrong result (printed), 10 + kind for a ddp::Error (printed), 77 no GPU
// (printed).

#include <csignal>
#include <ddp/distributed_data_parallel.h>
#include <ddp/local_devices.h>
#include <future>
#include <optional>
#include <stdexcept>
#include <unistd.h>

#include "tests/collectives/backends/nccl/device_floats.h"

using namespace ddp_tests;
using ddp::DeviceSpan;
using ddp::P2POp;
using ddp::ProcessGroup;
using ddp::Work;
using ddprun::tests::check;

namespace {

std::chrono::milliseconds limit(60'000);  // for calls that cannot end; others may take longer

void expect_under_way(const Work& work) {
  check(!work.is_completed() && !work.error(), "over before its stream came to it");
  try {
    work.wait(std::chrono::milliseconds(1));
    wrong("waited for before its stream came to it");
  } catch (const ddp::Error& error) {
    check(error.kind() == ddp::ErrorKind::timed_out, error.what());
  }
}

void expect_done(const Work& work) {
  work.wait(std::chrono::minutes(1));
  check(work.is_completed() && !work.error(), "done, and not completed");
}

/// The host continues at once. The call comes after its stream's earlier work and before its later
/// work, though it is in another stream.
void order(ProcessGroup& group) {
  const CUstream stream = make_stream();
  Floats data(stream, -1);
  group.all_reduce(data.span());  // connects
  DRIVER(cuStreamSynchronize, stream);
  Gate gate(stream);
  data.write(own(group));
  group.all_reduce(data.span());
  const Work work = group.iall_reduce(data.span());
  expect_under_way(work);
  work.wait();
  gate.open();
  data.expect(sum_of_ranks(group) * static_cast<float>(group.size()), "two sums");
  expect_done(work);
}

/// Over a library that works on the host, a begun call waits for its stream in a thread of ours.
void begun(ProcessGroup& group) {
  const CUstream stream = make_stream();
  Floats data(stream, -1);
  Floats large(stream, own(group), 10'000'001);  // several pieces
  Gate gate(stream);
  data.write(own(group));
  const Work first = group.iall_reduce(data.span());
  const Work second = group.iall_reduce(large.span(), ddp::ReduceOp::max);
  expect_under_way(first);
  gate.open();
  second.wait();
  expect_done(first);
  data.expect(sum_of_ranks(group), "a sum");
  large.expect(static_cast<float>(group.size()), "the greatest");
}

/// The default stream is the group's device's, whichever thread waits for the call.
void default_stream(ProcessGroup& group) {
  Floats data(nullptr, own(group));
  const Work work = group.iall_reduce(data.span());
  std::async(std::launch::async, [&] { work.wait(); }).get();
  data.expect(sum_of_ranks(group), "a sum in the default stream");
}

/// Calls in host memory, objects and barriers are independent, and parts of the group are groups.
void beside(ProcessGroup& group) {
  const CUstream stream = make_stream();
  Floats data(stream, own(group));
  std::vector<float> host = {own(group)};
  group.all_reduce(data.span());
  group.all_reduce(host);
  check(host.front() == sum_of_ranks(group), "a sum in host memory");
  auto part = group.split(group.rank() % 2);
  Floats once(stream, 1);
  part->all_reduce(once.span());
  group.barrier();
  const auto objects = group.all_gather_object("x");
  check(part->backend() == group.backend() && std::ssize(objects) == group.size(), "part");
  once.expect(static_cast<float>(part->size()), "a sum in a part");
  data.expect(sum_of_ranks(group), "a sum");
}

/// The same calls many times.
void again(ProcessGroup& group) {
  const CUstream stream = make_stream();
  const int next = (group.rank() + 1) % group.size();
  const int last = (group.rank() + group.size() - 1) % group.size();
  for (int turn = 1; turn <= 5; ++turn) {
    Floats out(stream, static_cast<float>(turn) * own(group));
    Floats in(stream, -1);
    const P2POp ring[] = {P2POp::send(out, next), P2POp::recv(in, last)};
    group.batch_send_recv(ring);
    in.expect(static_cast<float>(turn * (last + 1)), "a message");
    group.all_reduce(out.span());
    out.expect(static_cast<float>(turn) * sum_of_ranks(group), "a sum");
  }
}

/// Sends around a ring, one message at a time and many at once.
void messages(ProcessGroup& group) {
  const CUstream stream = make_stream();
  const int next = (group.rank() + 1) % group.size();
  const int last = (group.rank() + group.size() - 1) % group.size();
  Floats out(stream, own(group));
  Floats in(stream, -1);
  const P2POp ring[] = {P2POp::send(out, next), P2POp::recv(in, last)};
  group.batch_send_recv(ring);
  in.expect(static_cast<float>(last + 1), "batch_send_recv");
  if (group.rank() > 0) group.recv(in, group.rank() - 1);
  if (group.rank() + 1 < group.size()) group.send(group.rank() == 0 ? out : in, next);
  in.expect(group.rank() == 0 ? static_cast<float>(last + 1) : 1.0F, "passed on");
}

void refuse_capture(ProcessGroup& group, const Floats& data) {
  const CUstream stream = data.span().stream;
  DRIVER(cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  refused([&] { group.all_reduce(data.span()); });
  CUgraph graph = nullptr;
  DRIVER(cuStreamEndCapture, stream, &graph);
  DRIVER(cuGraphDestroy, graph);
}

void misuse(ProcessGroup& group) {
  const CUstream stream = make_stream();
  Floats data(stream, own(group));
  std::vector<float> host(kCount);
  std::vector<std::int32_t> bits(kCount);
  const DeviceSpan<std::int32_t> on_device = {reinterpret_cast<std::int32_t*>(data.span().data),
                                              kCount, stream};
  refused([&] { group.all_reduce(data.span(), ddp::Buffer(host)); });
  refuse_capture(group, data);
  group.all_reduce(data.span());
  if (group.backend() == "nccl")
    refused([&] { ddp::group_call([&] { group.all_to_all(on_device, on_device); }); });
  data.expect(sum_of_ranks(group), "a sum after misuse");
}

/// NCCL has no floats of 8 bits here.
void move_float8(ProcessGroup& group) {
  const CUstream stream = make_stream();
  Floats data(stream, own(group));
  const DeviceSpan<ddp::float8_e4m3> bytes = {reinterpret_cast<ddp::float8_e4m3*>(data.span().data),
                                              4 * kCount, stream};
  group.broadcast(bytes, 1);
  data.expect(2, "floats of rank 1");
  refused([&] { group.all_reduce(bytes); });
  group.barrier();
}

/// Calls become part of a graph, and are made again at each launch of the graph.
void capture(ProcessGroup& group, CUstreamCaptureMode mode) {
  const CUstream stream = make_stream();
  Floats data(stream, own(group));
  group.all_reduce(data.span());  // connects
  data.expect(sum_of_ranks(group), "a sum");
  data.write(1);
  DRIVER(cuStreamSynchronize, stream);
  DRIVER(cuStreamBeginCapture, stream, mode);
  group.all_reduce(data.span());
  const Work work = group.iall_reduce(data.span());
  work.wait();
  CUgraph graph = nullptr;
  CUgraphExec launchable = nullptr;
  DRIVER(cuStreamEndCapture, stream, &graph);
  DRIVER(cuGraphInstantiate, &launchable, graph, 0);
  check(work.is_completed() && !work.error(), "captured, and under way");
  const auto size = static_cast<float>(group.size());
  for (const float expected : {size * size, size * size * size * size}) {
    DRIVER(cuGraphLaunch, launchable, stream);
    data.expect(expected, "a sum by a graph");
  }
  DRIVER(cuGraphExecDestroy, launchable);
  DRIVER(cuGraphDestroy, graph);
  group.all_reduce(data.span());
  data.expect(size * size * size * size * size, "a sum after the graph");
}

/// The host makes backward passes that the GPU has not begun. A bucket is averaged after the
/// stream's work before gradient_ready(), and its work after finish() finds the average.
void train(ProcessGroup& group) {
  const CUstream stream = make_stream();
  const Floats weights(stream, own(group));
  const Floats bias(stream, own(group), 10);
  std::vector<std::unique_ptr<DeviceMemory>> buckets;
  const auto allocate = [&](std::size_t bytes) {
    buckets.push_back(std::make_unique<DeviceMemory>(bytes, stream));
    return std::shared_ptr<void>(buckets.back()->data(), [](void*) {});
  };
  ddp::DistributedDataParallel model(group, {weights, bias},
                                     {.first_bucket_bytes = 1, .allocate = allocate});
  const auto pass = [&](const Floats& gradient) {
    for (const std::size_t parameter : {1, 0}) {
      const ddp::Buffer place = model.gradient(parameter);
      DRIVER(cuMemcpyAsync, reinterpret_cast<CUdeviceptr>(place.data), gradient.address(),
             place.count * sizeof(float), stream);
      model.gradient_ready(parameter);
    }
    model.finish();
  };
  pass(weights);  // rank 0's by now; the ranks exchange the order of the buckets
  Floats first(stream, -1);
  Floats second(stream, -1);
  DRIVER(cuStreamSynchronize, stream);  // written again while the gate is closed
  Gate gate(stream);
  for (Floats* seen : {&first, &second}) {
    seen->write(own(group) * (seen == &first ? 1.0F : 2.0F));
    pass(*seen);
    DRIVER(cuMemcpyAsync, seen->address(), reinterpret_cast<CUdeviceptr>(model.gradient(0).data),
           kCount * sizeof(float), stream);
  }
  gate.open();
  const float average = sum_of_ranks(group) / static_cast<float>(group.size());
  first.expect(average, "an average");
  second.expect(2 * average, "the next average");
}

/// Checks the error of a call that cannot end, for each way to wait. Streams continue all the same.
void expect_failure(ProcessGroup& group, bool is_kept_waiting) {
  const CUstream stream = make_stream();
  Floats data(stream, own(group));
  group.all_reduce(data.span());
  data.expect(sum_of_ranks(group), "a sum");
  group.set_timeout(limit);
  if (group.rank() == 1 && !is_kept_waiting) ::raise(SIGKILL);
  if (group.rank() == 1) ::pause();
  const Work work = group.iall_reduce(data.span());
  DRIVER(cuStreamSynchronize, stream);
  try {
    work.wait(std::chrono::minutes(1));
    wrong("a call without rank 1 went well");
  } catch (const ddp::Error& error) {
    check(work.is_completed() && work.error(), "failed, and not completed");
  }
  group.all_reduce(data.span());
}

/// The third call of a group fails on rank 1, where a call of another group waits for rank 0.
void fail_beside(ProcessGroup& other) {
  auto part = other.split(0);
  ProcessGroup& group = *part;
  Floats data(make_stream(), own(group));
  Floats more(make_stream(), own(group));
  group.all_reduce(data.span());
  other.all_reduce(more.span());
  group.all_reduce(data.span());
  data.expect(sum_of_ranks(group) * static_cast<float>(group.size()), "two sums");
  more.expect(sum_of_ranks(group), "a sum in the other group");
  std::optional<Work> waits;
  std::optional<Work> fails;
  if (group.rank() == 0) fails = group.iall_reduce(data.span());
  other.barrier();  // rank 0 notices the failure in that call
  if (group.rank() == 1) {
    waits = other.iall_reduce(more.span());
    fails = group.iall_reduce(data.span());
  }
  DRIVER(cuStreamSynchronize, data.span().stream);
  DRIVER(cuStreamSynchronize, more.span().stream);
  try {
    fails->wait(std::chrono::minutes(1));
    wrong("a call that is to fail went well");
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
  }
  // Not all_reduce(): it returns when the call is in the stream, too early to see the failure.
  if (!waits) waits = other.iall_reduce(more.span());
  waits->wait(std::chrono::minutes(1));
}

/// A receive whose message is never sent.
void lone_receive(ProcessGroup& group) {
  Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  if (group.rank() == 1) ::pause();
  group.set_timeout(limit);
  group.recv(data.span(), 1);
  DRIVER(cuStreamSynchronize, data.span().stream);
  group.all_reduce(data.span());
}

/// An exception ends a call that would wait forever.
void unwind(ProcessGroup given) {
  const CUstream stream = make_stream();
  const Floats data(stream, own(given));  // stays until the group has given up the call
  ProcessGroup group(std::move(given));
  group.all_reduce(data.span());
  group.barrier();
  if (group.rank() == 1) ::pause();
  (void)group.iall_reduce(data.span());
  throw std::runtime_error("thrown by the program");
}

/// Prints the device before any is set, and then the current one.
void which() {
  const int device = ddp::local_device();
  use_device(count_devices() - 1);
  std::printf("%d, then %d\n", device, ddp::local_device());
}

void run(ProcessGroup group, const std::string& scenario) {
  if (scenario == "order") return order(group);
  if (scenario == "begun") return begun(group);
  if (scenario == "beside") return beside(group);
  if (scenario == "messages") return messages(group);
  if (scenario == "again") return again(group);
  if (scenario == "misuse") return misuse(group);
  if (scenario == "float8") return move_float8(group);
  if (scenario == "capture") return capture(group, CU_STREAM_CAPTURE_MODE_GLOBAL);
  if (scenario == "thread's capture") return capture(group, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  if (scenario == "train") return train(group);
  if (scenario == "default stream") return default_stream(group);
  if (scenario == "die") return expect_failure(group, false);
  if (scenario == "late") return expect_failure(group, true);
  if (scenario == "fail-beside") return fail_beside(group);
  if (scenario == "lone-receive") return lone_receive(group);
  if (scenario == "unwind") return unwind(std::move(group));
  if (scenario == "never-come" && group.rank() == 1) ::pause();
  group.set_timeout(limit);
  const Floats data(make_stream(), own(group));
  group.all_reduce(data.span());
  DRIVER(cuStreamSynchronize, data.span().stream);
  group.all_reduce(data.span());
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "order";
  if (argc > 2) limit = std::chrono::milliseconds(std::atoi(argv[2]));
  const int devices = count_devices();
  if (scenario != "missing" && scenario != "which" && devices == 0) {
    std::printf("no GPU here\n");
    return 77;
  }
  return ddprun::tests::exit_code_of([&] {
    if (scenario == "which") return which();
    const std::string backend = ddprun::tests::backend_of_test();
    auto group = ddp::init_process_group(
        {.backend = backend.empty() ? "nccl" : backend, .timeout = std::chrono::minutes(1)});
    use_device(group.rank() % std::max(devices, 1));  // "missing" ends before this
    run(std::move(group), scenario);
  });
}
