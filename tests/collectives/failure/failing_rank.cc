// SPDX-License-Identifier: Apache-2.0
// One rank of a job whose last rank ends with an error while the others are in a call with it, or
// come to that call:
//
//     failing_rank HOW CALL
//
// HOW: returns (7), catches (prints an exception, and returns 1), throws. CALL is a row of kCalls.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ddp/process_group.h>
#include <exception>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

using ddp::ProcessGroup;

constexpr const char* kWords = "loss is nan";

/// The data of calls: a block of this rank, and one of each.
struct Buffers {
  explicit Buffers(const ProcessGroup& group)
      : last(group.size() - 1),
        counts(static_cast<std::size_t>(group.size()), own.size()),
        all(own.size() * counts.size()) {}
  int last;
  std::vector<float> own = std::vector<float>(1 << 18);
  std::vector<std::size_t> counts;
  std::vector<float> all;
};

struct NamedCall {
  const char* name;
  void (*make)(ProcessGroup& group, Buffers& buffers);
};

/// Memory of the backend is of a GPU over nccl.
void reduce_on_device(ProcessGroup& group, Buffers& buffers) {
  const std::size_t count = buffers.own.size();
  const auto memory = group.allocate(count * sizeof(float));
  const ddp::DeviceSpan<float> data = {static_cast<float*>(memory.get()), count, nullptr};
  group.iall_reduce(data).wait(std::chrono::minutes(10));
}

void exchange_with_last(ProcessGroup& group, Buffers& buffers) {
  const int last = buffers.last;
  group.batch_send_recv(
      std::vector{ddp::P2POp::send(buffers.own, last), ddp::P2POp::recv(buffers.all, last)});
}

const NamedCall kCalls[] = {
    {"barrier", [](ProcessGroup& g, Buffers&) { g.barrier(); }},
    {"broadcast", [](ProcessGroup& g, Buffers& b) { g.broadcast(b.own, b.last); }},
    {"reduce", [](ProcessGroup& g, Buffers& b) { g.reduce(b.own, b.last); }},
    {"all_reduce", [](ProcessGroup& g, Buffers& b) { g.all_reduce(b.own); }},
    {"little", [](ProcessGroup& g, Buffers&) { (void)g.all_reduce(1); }},
    {"gather", [](ProcessGroup& g, Buffers& b) { g.gather(b.own, b.all, b.last); }},
    {"gather_v", [](ProcessGroup& g, Buffers& b) { g.gather_v(b.own, b.all, b.counts, b.last); }},
    {"all_gather", [](ProcessGroup& g, Buffers& b) { g.all_gather(b.own, b.all); }},
    {"all_gather_v", [](ProcessGroup& g, Buffers& b) { g.all_gather_v(b.own, b.all, b.counts); }},
    {"scatter", [](ProcessGroup& g, Buffers& b) { g.scatter(b.all, b.own, b.last); }},
    {"scatter_v", [](ProcessGroup& g, Buffers& b) { g.scatter_v(b.all, b.counts, b.own, b.last); }},
    {"reduce_scatter", [](ProcessGroup& g, Buffers& b) { g.reduce_scatter(b.all, b.own); }},
    {"reduce_scatter_v",
     [](ProcessGroup& g, Buffers& b) { g.reduce_scatter_v(b.all, b.own, b.counts); }},
    {"all_to_all", [](ProcessGroup& g, Buffers& b) { g.all_to_all(b.all, b.all); }},
    {"all_to_all_v",
     [](ProcessGroup& g, Buffers& b) { g.all_to_all_v(b.all, b.counts, b.all, b.counts); }},
    {"allocate", [](ProcessGroup& g, Buffers&) { (void)g.allocate(1 << 20); }},
    {"iall_reduce", [](ProcessGroup& g, Buffers& b) { g.iall_reduce(b.own).wait(); }},
    {"objects", [](ProcessGroup& g, Buffers&) { (void)g.all_gather_object("x"); }},
    {"split", [](ProcessGroup& g, Buffers&) { (void)g.split(0); }},
    {"recv", [](ProcessGroup& g, Buffers& b) { g.recv(b.own, b.last); }},
    {"irecv", [](ProcessGroup& g, Buffers& b) { g.irecv(b.own, b.last).wait(); }},
    {"send", [](ProcessGroup& g, Buffers& b) { g.send(b.own, b.last); }},
    {"batch", &exchange_with_last},
    {"on_device", &reduce_on_device},
    {"nothing", [](ProcessGroup&, Buffers&) { ::pause(); }},
};

int run(const std::string& how, const NamedCall& call) {
  ProcessGroup group = ddprun::tests::join();
  Buffers buffers(group);
  const bool is_first_call = std::getenv("FIRST_CALL") != nullptr;
  if (!is_first_call) group.all_reduce(buffers.own);
  if (group.rank() != buffers.last) {
    call.make(group, buffers);
    return 0;
  }
  if (how != "returns") throw std::runtime_error(kWords);
  std::fprintf(stderr, "%s\n", kWords);
  return 7;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string how = argv[1];
  const NamedCall* call = nullptr;
  for (const NamedCall& each : kCalls) {
    if (argv[2] == std::string(each.name)) call = &each;
  }
  if (call == nullptr) return 2;
  if (how == "throws") return run(how, *call);
  try {
    return run(how, *call);
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
