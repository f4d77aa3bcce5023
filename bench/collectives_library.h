// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "ddp/process_group.h"

// The collectives of ddp and of the libraries that it is compared with, behind one interface, so
// that one loop times them all.

namespace ddprun::bench {

enum class Collective {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  barrier,
  ping_pong,  ///< rank 2n sends `in` to rank 2n + 1, which sends it back, each to `out`
};

/// The buffers of one call. broadcast has its data in `out`; the root of broadcast and reduce is 0.
struct Arrays {
  const float* in;
  float* out;
  std::size_t count;   ///< elements; of one block, if each rank has one
  std::size_t blocks;  ///< the number of ranks if each has a block, else 1

  std::size_t total() const { return count * blocks; }
};

/// Blocking calls, which every rank makes. A failure throws, or ends the program.
class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  virtual std::string name() const = 0;
  virtual bool has(Collective collective) const = 0;
  virtual void run(Collective collective, const Arrays& arrays) = 0;
};

/// The partner of `rank` in ping_pong. With an odd number of ranks, the last has none: itself.
inline int partner(int rank, int size) {
  return (rank ^ 1) < size ? rank ^ 1 : rank;
}

/// ddp itself. The group must outlive it.
std::unique_ptr<Library> make_ddp(ddp::ProcessGroup& group);

/// Gloo's calls with options, over TCP on the loopback interface of one host. Uses `group` only to
/// connect its ranks.
std::unique_ptr<Library> make_gloo(ddp::ProcessGroup& group);

/// MPI's calls in MPI_COMM_WORLD. Throws ddp::Error if this was built without MPI.
std::unique_ptr<Library> make_mpi();

}  // namespace ddprun::bench
