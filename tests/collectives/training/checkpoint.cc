// SPDX-License-Identifier: Apache-2.0
// One rank that saves and loads checkpoints: checkpoint PATH ACTION... ("%" in PATH is the rank.)
// Over the backend that DDP_TEST_BACKEND names.
//
//   save:V    saves version V, of which every element can be told
//   load      "loaded V", when all is as it was saved; "nothing", when nothing was loaded
//   other     loads other parts than are saved
//   differ    loads other parts on each rank
//   device    saves what is said to be in device memory
//   limit     files of rank 0 cannot become longer than its header from now on: an error
//   kill      the same, and it dies of it
//
// An error is told on one line, and the rank goes on with the next action.

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ddp/checkpoint.h>
#include <ddp/process_group.h>
#include <string>
#include <sys/resource.h>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

using ddprun::tests::wrong;

struct State {
  std::vector<float> weights = std::vector<float>(1000, -1);
  std::vector<double> momentum = std::vector<double>(300'001, -1);
  std::vector<std::int64_t> steps = std::vector<std::int64_t>(1, -1);

  std::vector<ddp::Buffer> parts() { return {weights, momentum, steps}; }

  void fill(double version) {
    std::size_t at = 0;
    for (float& one : weights) one = static_cast<float>(version) + static_cast<float>(++at % 9);
    for (double& one : momentum) one = version + static_cast<double>(++at % 1000) / 1000;
    steps[0] = static_cast<std::int64_t>(version);
  }
  bool operator==(const State&) const = default;
};

void save(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint, std::uint64_t version) {
  State state;
  if (group.rank() == 0) state.fill(static_cast<double>(version));
  checkpoint.save(group, version, state.parts());
}

void load(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint) {
  State state;
  State expected;
  try {
    const auto version = checkpoint.load(group, state.parts());
    if (version) expected.fill(static_cast<double>(*version));
    if (state != expected) wrong("not what was saved");
    std::printf("%s\n", version ? ("loaded " + std::to_string(*version)).c_str() : "nothing");
  } catch (const ddp::Error&) {
    if (state != expected) wrong("an error changed the parts");
    throw;
  }
}

void limit_files(const ddp::ProcessGroup& group, bool survives) {
  if (group.rank() != 0) return;
  if (survives) std::signal(SIGXFSZ, SIG_IGN);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const rlimit most{4096, 4096};
  setrlimit(RLIMIT_FSIZE, &most);
}

void act(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint, const std::string& action) {
  std::vector<float> small(static_cast<std::size_t>(group.rank()) + 1);
  if (action.starts_with("save:")) {
    save(group, checkpoint, std::strtoull(action.c_str() + 5, nullptr, 10));
  } else if (action == "load") {
    load(group, checkpoint);
  } else if (action == "other") {
    std::vector<float> weights(1000);
    std::vector<float> momentum(300'001);
    checkpoint.load(group, {weights, momentum});
  } else if (action == "differ") {
    checkpoint.load(group, {small});
  } else if (action == "device") {
    checkpoint.save(group, 1, {ddp::DeviceSpan<float>{small.data(), small.size()}});
  } else if (action == "limit" || action == "kill") {
    limit_files(group, action == "limit");
  } else {
    wrong("no action " + action);
  }
}

void run(int argc, char** argv) {
  auto group = ddp::init_process_group({.backend = ddprun::tests::backend_of_test()});
  std::string path = argc > 1 ? argv[1] : "";
  const std::size_t at = path.find('%');
  if (at != std::string::npos) path.replace(at, 1, std::to_string(group.rank()));
  ddp::Checkpoint checkpoint(path);
  for (int i = 2; i < argc; ++i) {
    try {
      act(group, checkpoint, argv[i]);
    } catch (const ddp::Error& error) {
      if (error.kind() == ddp::ErrorKind::peer_lost) throw;
      std::printf("error %d: %s\n", static_cast<int>(error.kind()), error.what());
    }
    std::fflush(stdout);
    group.barrier();  // it is usable
  }
}

}  // namespace

int main(int argc, char** argv) {
  return ddprun::tests::exit_code_of([&] { run(argc, argv); });
}
