// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <stdexcept>

#include "ddp/error.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/paths.h"

using namespace ddprun::tests;
using ddp::ErrorKind;

TEST_CASE("a message over MPI that is shorter than expected is a mismatch") {
  const Ended job = under_mpirun(2, rank_command([](ddp::ProcessGroup& group) {
                                   std::vector<float> data(100 + group.rank());
                                   if (group.rank() == 0) group.send(data, 1, 5);
                                   if (group.rank() == 1) group.recv(data, 0, 5);
                                   group.barrier();
                                 }));
  INFO(job.output);
  CHECK(contains(job.output,
                 "rank 1 is at #1 recv float32[101] from rank 0, tag 5, but the "
                 "message has 400 bytes, not 404"));
  CHECK(job.code == failed(ErrorKind::mismatch));
}

TEST_CASE("more elements than MPI can count are refused, and the group stays usable") {
  const Ended job = under_mpirun(2, {program_path("ddp_mpi_program"), "count"});
  INFO(job.output);
  CHECK(
      contains(job.output, "send: backend mpi moves at most 2147483647 elements, not 2147483648"));
  CHECK(job.code == 0);
}

TEST_CASE("a call that MPI begins and does not end ends the process with a message") {
  const Ended job = under_mpirun(2, {program_path("ddp_mpi_program"), "stuck"});
  INFO(job.output);
  CHECK(job.code == 124);
  CHECK(contains(job.output,
                 "timed out after 1 s in #1 all_reduce sum float32[100]: "
                 "every rank is at #1 all_reduce sum float32[100]"));
  CHECK(contains(job.output, "Its calls did not end within another 5 s: ending the process"));
}

TEST_CASE("mpirun ends the job when a rank throws") {
  const Ended job = under_mpirun(3, rank_command([](ddp::ProcessGroup& group) {
                                   group.barrier();  // connects all ranks
                                   if (group.rank() == 1) {
                                     throw std::runtime_error("thrown by the program");
                                   }
                                   group.barrier();
                                 }));
  INFO(job.output);
  CHECK(job.code == 2);
}

TEST_CASE("mpirun ends the job when a rank dies in the middle of calls") {
  const Ended job = under_mpirun(3, rank_command([](ddp::ProcessGroup& group) {
                                   std::vector<float> data(10, 1);
                                   for (int call = 0;; ++call) {
                                     group.all_reduce(data);
                                     if (group.rank() == 1 && call == 100) std::raise(SIGKILL);
                                   }
                                 }));
  INFO(job.output);
  CHECK(job.code == 128 + SIGKILL);
}

TEST_CASE("a program that starts and ends MPI itself can have groups in between") {
  const Ended job = under_mpirun(3, {program_path("ddp_mpi_program"), "own-mpi"});
  INFO(job.output);
  CHECK(job.code == 0);
}

TEST_CASE("an MPI that was started for only one thread is refused") {
  const Ended job = under_mpirun(2, {program_path("ddp_mpi_program"), "one-thread"});
  INFO(job.output);
  CHECK(job.code == 0);
  CHECK(contains(job.output, "the program started MPI without MPI_THREAD_MULTIPLE"));
}

TEST_CASE("ranks that mpirun did not start are refused with a hint") {
  const auto ended = run_ranks(2, rank_command([](ddp::ProcessGroup&) {}), over_mpi());
  for (std::size_t rank = 0; rank < ended.size(); ++rank) {
    INFO(ended[rank].output);
    CHECK(ended[rank].code == failed(ErrorKind::usage));
    CHECK(contains(ended[rank].output,
                   "rank " + std::to_string(rank) + " of 2 is rank 0 of 1 in MPI's world"));
    CHECK(contains(ended[rank].output, "mpirun -n 2 PROGRAM"));
  }
}
