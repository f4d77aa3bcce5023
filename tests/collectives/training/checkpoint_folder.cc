// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/training/checkpoint_folder.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <sys/resource.h>

#include "ddp/process_group.h"
#include "tests/catch.h"

namespace ddprun::tests {
namespace {

void save(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint, std::uint64_t version) {
  SavedState state;
  if (group.rank() == 0) state.fill(static_cast<double>(version));
  checkpoint.save(group, version, state.parts());
}

/// Changes the state as soon as the save has begun.
ddp::Work begin_to_save(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint,
                        std::uint64_t version) {
  SavedState state;
  if (group.rank() == 0) state.fill(static_cast<double>(version));
  const ddp::Work work = checkpoint.isave(group, version, state.parts());
  state.fill(-5);
  return work;
}

void load(ddp::ProcessGroup& group, ddp::Checkpoint& checkpoint) {
  SavedState state;
  SavedState expected;
  try {
    const auto version = checkpoint.load(group, state.parts());
    if (version) expected.fill(static_cast<double>(*version));
    if (state != expected) wrong("not what was saved");
    std::printf("%s\n", version ? ("loaded " + std::to_string(*version)).c_str() : "nothing");
  } catch (const ddp::Error&) {
    if (state != expected) std::printf("changed ");
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
  static std::optional<ddp::Work> begun;
  std::vector<float> small(static_cast<std::size_t>(group.rank()) + 1);
  if (action.starts_with("save:")) {
    save(group, checkpoint, std::strtoull(action.c_str() + 5, nullptr, 10));
  } else if (action.starts_with("begin:")) {
    begun = begin_to_save(group, checkpoint, std::strtoull(action.c_str() + 6, nullptr, 10));
  } else if (action == "end") {
    begun->wait();
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

void act_all(ddp::ProcessGroup& group, std::string path, const std::string& actions) {
  const std::size_t at = path.find('%');
  if (at != std::string::npos) path.replace(at, 1, std::to_string(group.rank()));
  ddp::Checkpoint checkpoint(path);
  std::istringstream words(actions);
  for (std::string action; words >> action;) {
    try {
      act(group, checkpoint, action);
    } catch (const ddp::Error& error) {
      if (error.kind() == ddp::ErrorKind::peer_lost) throw;
      std::printf("error %d: %s\n", static_cast<int>(error.kind()), error.what());
    }
    std::fflush(stdout);
    group.barrier();  // the group is usable
  }
}

/// The elements of a part as in memory.
std::string bytes_of(const ddp::ConstBuffer& part, std::size_t size) {
  return {static_cast<const char*>(part.data), part.count * size};
}

}  // namespace

std::string elements_of(std::uint64_t version) {
  SavedState state;
  state.fill(static_cast<double>(version));
  return bytes_of(state.weights, 4) + bytes_of(state.momentum, 8) + bytes_of(state.steps, 8);
}

std::vector<std::string> CheckpointFolder::others() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path() != file && entry.path() != previous) names.push_back(entry.path());
  }
  return names;
}

std::vector<Ended> CheckpointFolder::run(int size, const std::string& actions,
                                         const std::string& named) const {
  return run_ranks(
      size,
      [](ddp::ProcessGroup& group, const std::string& where, const std::string& all) {
        act_all(group, where, all);
      },
      named.empty() ? file : (path / named).string(), actions);
}

void CheckpointFolder::expect(int size, const std::string& actions, const std::string& output,
                              const std::string& named) const {
  for (const Ended& rank : run(size, actions, named)) {
    CHECK(rank.output == output);
    CHECK(rank.code == 0);
  }
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string error_line(ddp::ErrorKind kind, const std::string& sentence) {
  return "error " + std::to_string(static_cast<int>(kind)) + ": ddp: " + sentence + "\n";
}

}  // namespace ddprun::tests
