// SPDX-License-Identifier: Apache-2.0
// One rank of a program that uses MPI itself: mpi_program SCENARIO.

#include <chrono>
#include <cstdio>
#include <ddp/process_group.h>
#include <limits>
#include <mpi.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

bool stands_still = false;

}  // namespace

/// Replaces MPI's own.
extern "C" int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                             MPI_Op op, MPI_Comm comm) {
  if (stands_still) ::pause();
  return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

namespace {

using namespace ddprun::tests;
using ddp::ProcessGroup;
using ddp::Work;

ProcessGroup join() {
  return ddp::init_process_group({.backend = "mpi", .timeout = std::chrono::seconds(60)});
}

/// The program uses its own MPI before, beside and after the group.
void own_mpi() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  int rank = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    auto group = join();
    if (group.backend() != "mpi" || group.rank() != rank) wrong("who the group says it is");
    for (int turn = 0; turn < 10; ++turn) {
      std::vector<int> sum = {rank};
      const Work work = group.iall_reduce(sum);
      int theirs = 0;
      MPI_Allreduce(&rank, &theirs, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      work.wait();
      if (sum.front() != theirs) wrong("two sums of the same");
    }
  }
  MPI_Finalize();  // while the group is being left
}

/// MPI only takes calls from one thread.
void one_thread() {
  MPI_Init(nullptr, nullptr);
  try {
    join();
    wrong("joined");
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
  }
  MPI_Finalize();
}

/// More elements than int can count are refused, and the group is as good as before.
void count() {
  auto group = join();
  const auto many = std::size_t{std::numeric_limits<int>::max()} + 1;
  try {
    group.send(ddp::ConstBuffer(&many, many, ddp::DataType::int8), 1 - group.rank());
    wrong("accepted");
  } catch (const ddp::Error& error) {
    if (error.kind() != ddp::ErrorKind::usage) wrong(error.what());
    std::printf("%s\n", error.what());
  }
  group.barrier();
}

/// Rank 1 makes the call, and never returns from MPI's own function.
void stuck() {
  auto group = join();
  group.set_timeout(std::chrono::seconds(1));
  stands_still = group.rank() == 1;
  std::vector<float> data(100);
  group.all_reduce(data);
}

void run(const std::string& scenario) {
  if (scenario == "own-mpi") return own_mpi();
  if (scenario == "one-thread") return one_thread();
  if (scenario == "count") return count();
  if (scenario == "stuck") return stuck();
  wrong("no scenario " + scenario);
}

}  // namespace

int main(int argc, char** argv) {
  return exit_code_of([&] { run(argc > 1 ? argv[1] : ""); });
}
