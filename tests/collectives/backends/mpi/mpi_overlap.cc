// SPDX-License-Identifier: Apache-2.0
// One rank that sums much data on a device through a slow MPI. MPI continues with the first piece
// when the second has been copied to host memory.

#include <chrono>
#include <mpi.h>
#include <thread>

#include "tests/collectives/backends/nccl/device_floats.h"

using namespace ddp_tests;
using ddprun::tests::check;

namespace {

constexpr std::size_t kMany = 3'000'001;  // three pieces
int calls = 0;

int copies() {
  return driver_function<int()>("fake_gpu_copies")();
}

void wait_for_second_copy(int before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (copies() < before + 2) {
    check(std::chrono::steady_clock::now() < deadline, "no piece is copied while MPI has one");
    std::this_thread::yield();
  }
}

int copies_before = 0;

}  // namespace

/// Replaces MPI's own.
extern "C" int MPI_Allreduce(const void* sendbuf, void* recvbuf, int count, MPI_Datatype datatype,
                             MPI_Op op, MPI_Comm comm) {
  if (++calls == 1) wait_for_second_copy(copies_before);
  return PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
}

int main() {
  return ddprun::tests::exit_code_of([] {
    auto group = ddp::init_process_group({.backend = "mpi", .timeout = std::chrono::seconds(120)});
    use_device(0);
    Floats data(make_stream(), own(group), kMany);
    DRIVER(cuStreamSynchronize, data.span().stream);
    copies_before = copies();
    group.all_reduce(data.span());
    check(calls > 2, "MPI got the data at once");
    data.expect(sum_of_ranks(group), "a sum in pieces");
  });
}
