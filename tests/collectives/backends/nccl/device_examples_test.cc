// SPDX-License-Identifier: Apache-2.0
// The examples for GPUs: as they are, on a machine without GPU; and with a fake runtime, driver and
// NCCL (fake_gpu/).

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/collectives/backends/nccl/gpus.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;

namespace {

/// Runs ranks that must succeed.
std::vector<Ended> run_well(int size, const std::vector<std::string>& command) {
  const auto ended = run_ranks(size, command, {{"LD_LIBRARY_PATH", fake_gpu_folder()}});
  for (const Ended& rank : ended) {
    INFO(rank.output);
    REQUIRE(rank.code == 0);
  }
  return ended;
}

double last(const Ended& rank, const std::string& word) {
  const std::size_t at = rank.output.rfind(word);
  INFO(rank.output);
  REQUIRE(at != std::string::npos);
  return std::strtod(rank.output.c_str() + at + word.size(), nullptr);
}

void check_same_result(const Ended& a, const Ended& b) {
  CHECK(std::abs(last(a, "loss") - last(b, "loss")) <= 1e-3 * last(a, "loss"));
  CHECK(std::abs(last(a, "accuracy") - last(b, "accuracy")) <= 0.003);  // one digit of 359
}

}  // namespace

TEST_CASE("the smallest program for GPUs adds up its ranks") {
  const auto ended = run_well(3, {program_path("fake_gpu_allreduce_hello")});
  CHECK(ended[1].output == "rank 1 of 3: the sum is 6\n");
}

TEST_CASE("the training on GPUs learns what the training on CPUs learns") {
  const int size = GENERATE(1, 3);
  const std::vector<std::string> flags = {"--epochs", "2"};
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.end(), flags.begin(), flags.end());
    return run_well(size, command)[0];
  };
  check_same_result(run({program_path("fake_gpu_train_digits")}),
                    run({program_path("train_digits")}));
}

TEST_CASE("a batch without a digit for a rank, and the other program's checkpoint, work") {
  const Folder folder;
  const auto run = [&](const std::string& program, const char* epochs,
                       const std::string& checkpoint) {
    return run_well(2, {program, "--batch", "479", "--epochs", epochs, "--checkpoint",
                        folder.path / checkpoint})[0];
  };
  const Ended straight = run(program_path("train_digits"), "4", "straight");
  run(program_path("train_digits"), "2", "shared");
  run(program_path("fake_gpu_train_digits"), "3", "shared");
  const Ended resumed = run(program_path("train_digits"), "4", "shared");
  CHECK(contains(resumed.output, "resumed after epoch 3/4"));
  check_same_result(resumed, straight);
}

TEST_CASE("an example for GPUs reports in one line what is missing") {
  const Folder folder;
  const std::ofstream no_driver(folder.path /
                                "libcuda.so.1");  // the loader finds it, but it is no library
  Variables variables = place(0, 1, 1);
  variables.emplace("LD_LIBRARY_PATH", folder.path);
  for (const std::string& program :
       {program_path("allreduce_hello_cuda"), program_path("train_digits_cuda")}) {
    if (!std::filesystem::exists(program)) continue;  // CUDA's compiler is needed to build it
    const Ended ended = Rank({program}, variables).wait();
    INFO(ended.output);
    CHECK(ended.code == 1);
    CHECK(contains(ended.output, "it comes with NVIDIA's driver\n"));
    CHECK(ended.output.find('\n') + 1 == ended.output.size());
  }
}
