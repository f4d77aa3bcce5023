// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "agent/worker/worker_command.h"
#include "tests/catch.h"

using namespace ddprun;
using Strings = std::vector<std::string>;

namespace {

agent::JobSpec preloading(Strings command, std::size_t own_arguments) {
  agent::JobSpec job;
  job.program = "/venv/bin/python3";
  job.command = std::move(command);
  job.own_arguments = own_arguments;
  job.preload = {"torch", "numpy"};
  return job;
}

/// Behind python, its program and the modules.
Strings words_of(const agent::JobSpec& job) {
  Strings words = agent::template_command(job, {}).arguments;
  REQUIRE(words.size() > 5);
  CHECK(Strings(words.begin(), words.begin() + 3) == Strings{"/venv/bin/python3", "-u", "-c"});
  CHECK(words[3] == agent::kTemplateProgram);
  CHECK(words[4] == "torch,numpy");
  words.erase(words.begin(), words.begin() + 5);
  return words;
}

}  // namespace

TEST_CASE("the template gets the words between python and the program's arguments") {
  const std::string python = "/venv/bin/python3";
  CHECK(words_of(preloading({python, "-u", "train.py", "--lr", "1"}, 3)) == Strings{"train.py"});
  CHECK(words_of(preloading({python, "-u", "-m", "pkg", "x"}, 4)) == Strings{"-m", "pkg"});
  CHECK(words_of(preloading({python, "-u", "-c", "code", "file", "x"}, 5)) ==
        Strings{"-c", "code", "file"});
}

TEST_CASE("the environment of the template keeps an import from starting threads") {
  agent::JobSpec job = preloading({"python3", "-u", "train.py"}, 3);
  const Strings of_one = {"OPENBLAS_NUM_THREADS=1", "A=b", "PYTORCH_NVML_BASED_CUDA_CHECK=1"};
  CHECK(agent::template_command(job, {"A=b", "OPENBLAS_NUM_THREADS=8"}).environment == of_one);

  job.local_size = 2;
  const Strings of_two = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1",
                          "PYTORCH_NVML_BASED_CUDA_CHECK=1"};
  CHECK(agent::template_command(job, {}).environment == of_two);

  job.hang_timeout = std::chrono::seconds(9);
  const Strings given = {"OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=4",
                         "PYTORCH_NVML_BASED_CUDA_CHECK=0", "PYTHONFAULTHANDLER=1"};
  CHECK(agent::template_command(job, {"OMP_NUM_THREADS=4", "PYTORCH_NVML_BASED_CUDA_CHECK=0"})
            .environment == given);
}
