// SPDX-License-Identifier: Apache-2.0
// Buffers on devices over MPI, on a fake driver that works in host memory (fake_gpu/). So an MPI
// that is not CUDA-aware can claim to be, and moves them.

#include <algorithm>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/backends/nccl/gpus.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;

namespace {

const Variables kFakeGpu = {{"LD_LIBRARY_PATH", fake_gpu_folder()},
                            {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}};

/// Copies in host memory are impossible.
const Variables kNoCopies = {{"LD_LIBRARY_PATH", fake_gpu_folder()},
                             {"CUDA_VISIBLE_DEVICES", "0,1,2,3"},
                             {"FAKE_GPU_NO_HOST_MEMORY", "1"}};

}  // namespace

TEST_CASE("over MPI every operation gives the right result for every type on a device") {
  const int size = GENERATE(1, 3);
  const std::string program =
      GENERATE(program_path("device_operations"), program_path("device_operations_cuda_aware"));
  const Ended job = under_mpirun(size, {program, "few"}, kFakeGpu);
  INFO(size << " ranks of " << program << ": " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("calls on a device over MPI keep their order among streams, hosts and groups") {
  const std::string scenario = GENERATE("begun", "beside", "messages");
  const Ended job = under_mpirun(3, {program_path("device_worker"), scenario}, kFakeGpu);
  INFO(scenario << ": " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("a CUDA-aware MPI gets buffers on a device as they are") {
  const std::string scenario = GENERATE("begun", "beside", "messages");
  const Ended job =
      under_mpirun(3, {program_path("device_worker_cuda_aware"), scenario}, kNoCopies);
  INFO(scenario << ": " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("an error of CUDA over MPI is reported with rank, call and CUDA's message") {
  const auto [scenario, call] = GENERATE(table<std::string, std::string>(
      {{"begun", "#1 all_reduce sum float32[1000]"}, {"messages", "#1 send float32[1000]"}}));
  const Ended job = under_mpirun(3, {program_path("device_worker"), scenario}, kNoCopies);
  INFO(job.output);
  CHECK(job.code == failed(ddp::ErrorKind::system));
  CHECK(contains(job.output, " failed in " + call));
  CHECK(contains(job.output, ": cuMemHostAlloc: an error of the fake driver"));
}

TEST_CASE("pieces of a call on a device over MPI are copied while MPI moves others") {
  const Ended job = under_mpirun(2, {program_path("mpi_overlap")}, kFakeGpu);
  INFO(job.output);
  CHECK(job.code == 0);
}

TEST_CASE("calls on a device over MPI keep their host memory for later calls") {
  Variables telling = kFakeGpu;
  telling.emplace("FAKE_GPU_TELL", "1");
  const Ended job = under_mpirun(2, {program_path("device_worker"), "again"}, telling);
  INFO(job.output);
  CHECK(job.code == 0);
  CHECK(std::ranges::count(job.output, '\n') ==
        2 * 3);  // from each rank: one for a call, one sent, one received
}

TEST_CASE("unsupported calls on a device over MPI are refused, and the group stays as it was") {
  const Ended job = under_mpirun(2, {program_path("device_worker"), "misuse"}, kFakeGpu);
  INFO(job.output);
  CHECK(job.code == 0);
  CHECK(contains(job.output, "all_reduce: in is on a device, but out in host memory"));
  CHECK(contains(job.output, "its calls cannot be captured into a graph"));
}
