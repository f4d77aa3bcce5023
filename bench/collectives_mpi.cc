// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <mpi.h>

#include "bench/collectives_library.h"

namespace ddprun::bench {
namespace {

/// MPI ends the program if a call fails: MPI_ERRORS_ARE_FATAL is MPI_COMM_WORLD's handler.
class Mpi : public Library {
 public:
  /// If ddp uses MPI, it runs already.
  Mpi() {
    int is_running = 0;
    MPI_Initialized(&is_running);
    ends_ = is_running == 0;
    if (ends_) MPI_Init(nullptr, nullptr);
  }
  ~Mpi() override {
    if (ends_) MPI_Finalize();
  }

  /// "Open MPI v4.1.4, package: ..."
  std::string name() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> version{};
    int length = 0;
    MPI_Get_library_version(version.data(), &length);
    std::string whole(version.data());
    std::ranges::replace(whole, '\t', ' ');  // MPICH's text has tabs
    return whole.substr(0, whole.find_first_of(",\n"));
  }

  bool has(Collective /*collective*/) const override { return true; }

  void run(Collective collective, const Arrays& arrays) override {
    const int count = static_cast<int>(arrays.count);
    const float* const in = arrays.in;
    float* const out = arrays.out;
    switch (collective) {
      case Collective::all_reduce:
        MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
      case Collective::broadcast:
        MPI_Bcast(out, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        return;
      case Collective::reduce:
        MPI_Reduce(in, out, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
        return;
      case Collective::all_gather:
        MPI_Allgather(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        return;
      case Collective::reduce_scatter:
        MPI_Reduce_scatter_block(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        return;
      case Collective::all_to_all:
        MPI_Alltoall(in, count, MPI_FLOAT, out, count, MPI_FLOAT, MPI_COMM_WORLD);
        return;
      case Collective::barrier:
        MPI_Barrier(MPI_COMM_WORLD);
        return;
      case Collective::ping_pong:
        return ping_pong(in, out, count);
    }
  }

 private:
  static void ping_pong(const float* in, float* out, int count) {
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int other = partner(rank, size);
    if (other == rank) return;
    if (rank < other) MPI_Send(in, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
    MPI_Recv(out, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank > other) MPI_Send(in, count, MPI_FLOAT, other, 0, MPI_COMM_WORLD);
  }

  bool ends_ = false;
};

}  // namespace

std::unique_ptr<Library> make_mpi() {
  return std::make_unique<Mpi>();
}

}  // namespace ddprun::bench
