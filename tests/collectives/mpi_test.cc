// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

namespace {

constexpr const char* kImpatient = "1500";  // milliseconds
constexpr int kSkipped = 77;

int failed(ErrorKind kind) {
  return 10 + static_cast<int>(kind);
}

/// The job as its launcher ends it.
Ended under_mpirun(int size, const std::vector<std::string>& program) {
  if (::access(MPIRUN, X_OK) != 0) {
    std::printf("skipped: there is no mpirun here, at " MPIRUN "\n");
    std::exit(kSkipped);
  }
  std::vector<std::string> command = {MPIRUN, "-n", std::to_string(size)};
  command.insert(command.end(), program.begin(), program.end());
  return Rank(command, {{"DDP_TEST_BACKEND", "mpi"},
                        {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                        {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
                        {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                        {"OMPI_MCA_hwloc_base_binding_policy", "none"}})
      .wait();
}

}  // namespace

TEST_CASE("over MPI every operation gives every type's right result, in place or not") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  const Ended job = under_mpirun(size, {DDP_OPERATIONS});
  INFO(size << " ranks: " << job.output);
  CHECK(job.code == 0);
  CHECK(contains(job.output, "all_reduce cannot take the avg of int8: only of floating-point"));
}

TEST_CASE("over MPI 64 MiB are moved and combined as less is") {
  const Ended job = under_mpirun(3, {DDP_OPERATIONS, "large"});
  INFO(job.output);
  CHECK(job.code == 0);
}

TEST_CASE("over MPI groups, threads, messages and byte strings do as over Gloo") {
  const auto scenario =
      GENERATE(as<std::string>(), "hurry", "two-groups", "parts", "threads", "objects", "misuse");
  const Ended job = under_mpirun(3, {DDP_WORKER, scenario});
  INFO(scenario << ": " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("over MPI begun calls are done in their order, and go on after an impatient wait") {
  const auto scenario = GENERATE(as<std::string>(), "many", "late");
  const Ended job = under_mpirun(3, {DDP_ASYNC, scenario});
  INFO(scenario << ": " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("messages over MPI do as over Gloo") {
  const auto [size, scenario] = GENERATE(table<int, std::string>({{3, "both-ways"},
                                                                  {3, "in-turn"},
                                                                  {2, "tags"},
                                                                  {3, "beside"},
                                                                  {3, "ring"},
                                                                  {2, "flood"},
                                                                  {2, "late"},
                                                                  {3, "threads"},
                                                                  {3, "leave"},
                                                                  {2, "self"}}));
  const Ended job = under_mpirun(size, {DDP_MESSAGES, scenario});
  INFO(scenario << ": " << job.output);
  CHECK(job.code == 0);
}

TEST_CASE("a message over MPI that is shorter than expected is told") {
  const Ended job = under_mpirun(2, {DDP_MESSAGES, "differ-count"});
  INFO(job.output);
  CHECK(contains(job.output,
                 "rank 1 is at #1 recv float32[101] from rank 0, tag 5, but the "
                 "message has 400 bytes, not 404"));
  CHECK(job.code == failed(ErrorKind::mismatch));
}

TEST_CASE("more than MPI can count is refused, and the group is as good as before") {
  const Ended job = under_mpirun(2, {DDP_MPI_PROGRAM, "count"});
  INFO(job.output);
  CHECK(
      contains(job.output, "send: backend mpi moves at most 2147483647 elements, not 2147483648"));
  CHECK(job.code == 0);
}

TEST_CASE("calls over MPI that differ between ranks are told before anything moves") {
  const auto [how, call, other] = GENERATE(table<std::string, std::string, std::string>({
      {"count", "all_reduce sum float32[100]", "all_reduce sum float32[101]"},
      {"operation", "all_reduce sum float32[100]", "barrier"},
      {"counts", "all_to_all_v float32 and expects 5 elements of rank 1", "which sends 4"},
  }));
  const Ended job = under_mpirun(3, {DDP_WORKER, "differ-" + how});
  INFO(job.output);
  CHECK(job.code == failed(ErrorKind::mismatch));
  CHECK(contains(job.output, call));
  CHECK(contains(job.output, other));
}

TEST_CASE("a rank that never makes a call over MPI ends the others' wait, and they name it") {
  const Ended job = under_mpirun(4, {DDP_WORKER, "never-come", kImpatient});
  INFO(job.output);
  CHECK(job.code == failed(ErrorKind::timed_out));
  CHECK(contains(job.output, "waited 1500 ms in vain in #1 barrier: rank 1 is in no call yet"));
}

TEST_CASE("mpirun ends the job when a rank throws or dies") {
  const auto [how, code] =
      GENERATE(table<std::string, int>({{"throw", 2}, {"die-small", 128 + 9}}));
  const Ended job = under_mpirun(3, {DDP_WORKER, how});
  INFO(job.output);
  CHECK(job.code == code);
}

TEST_CASE("a program that starts and ends MPI itself has groups in between") {
  const Ended job = under_mpirun(3, {DDP_MPI_PROGRAM, "own-mpi"});
  INFO(job.output);
  CHECK(job.code == 0);
}

TEST_CASE("an MPI that was started for one thread alone is refused") {
  const Ended job = under_mpirun(2, {DDP_MPI_PROGRAM, "one-thread"});
  INFO(job.output);
  CHECK(job.code == 0);
  CHECK(contains(job.output, "the program started MPI without MPI_THREAD_MULTIPLE"));
}

TEST_CASE("ranks that mpirun did not start are told so") {
  const Variables over_mpi = {{"DDP_TEST_BACKEND", "mpi"},
                              {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                              {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  const auto ended = run_ranks(2, {DDP_WORKER, "all"}, over_mpi);
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::usage));
    CHECK(contains(ended[rank].output,
                   "rank " + std::to_string(rank) + " of 2 is rank 0 of 1 in MPI's world"));
    CHECK(contains(ended[rank].output, "mpirun -n 2 PROGRAM"));
  }
}
