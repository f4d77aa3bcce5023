// SPDX-License-Identifier: Apache-2.0
// One rank of a group in which something goes wrong: failing SCENARIO [FILE]. Exit code: 0 all
// right, 1 a wrong result (told), 10 + kind for a ddp::Error (told).

#include <cstdio>
#include <cstdlib>
#include <ddp/process_group.h>
#include <ddp/trace.h>
#include <string>
#include <vector>

namespace {

using ddp::ProcessGroup;

[[noreturn]] void wrong(const std::string& what) {
  std::printf("wrong: %s\n", what.c_str());
  std::exit(1);
}

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
  try {
    auto group = ddp::init_process_group();
    run(group, argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
    return 10 + static_cast<int>(error.kind());
  }
  return 0;
}
