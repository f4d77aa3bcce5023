// SPDX-License-Identifier: Apache-2.0
// One rank of a group in which something goes wrong: failing SCENARIO [FILE].

#include <cstdio>
#include <ddp/process_group.h>
#include <ddp/trace.h>
#include <string>
#include <vector>

#include "tests/collectives/scenario.h"

namespace {

using namespace ddprun::tests;
using ddp::ProcessGroup;

/// Calls of several kinds, in two groups; then rank 1 makes another than the others.
void differ(ProcessGroup& group) {
  auto part = group.split(group.rank() % 2);
  std::vector<float> data(1000);
  group.all_reduce(data, ddp::ReduceOp::max);
  part->barrier();
  const ddp::Work work = group.ibroadcast(data, 1);
  work.wait();
  if (group.rank() == 0) group.send(data, 1, 5);
  if (group.rank() == 1) group.recv(data, 0, 5);
  if (group.rank() == 1) return group.barrier();
  group.all_reduce(data);
}

/// More calls than a trace keeps.
void many(ProcessGroup& group, const std::string& file) {
  for (int i = 0; i < 3000; ++i) group.barrier();
  ddp::write_trace(file);
  try {
    ddp::write_trace(file + "/not-a-folder");
    wrong("a trace was written into a file");
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
  }
  group.barrier();
}

void run(ProcessGroup& group, const std::string& scenario, const std::string& file) {
  if (scenario == "differ") return differ(group);
  if (scenario == "many") return many(group, file);
  wrong("no scenario " + scenario);
}

}  // namespace

int main(int argc, char** argv) {
  return exit_code_of([&] {
    auto group = ddp::init_process_group();
    run(group, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  });
}
