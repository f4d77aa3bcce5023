// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mpi/mpi_line.h"
#include "agent/mpi/mpi_nodes.h"
#include "rendezvous/layout.h"

namespace ddprun::agent {

/// The server of PMI-1, by which MPICH, Intel MPI and others find their ranks, for the ranks of one
/// node: lines in, lines out. Pure.
///
/// Ranks put keys, and read them after a barrier. The caller exchanges the nodes' keys at each
/// barrier. A rank that does not keep to the protocol is not heard any more, and is named in a
/// MpiNews::failed.
class Pmi1Server {
 public:
  static constexpr std::size_t kMostLine = 4096;
  static constexpr std::size_t kMostKey = 64;
  static constexpr std::size_t kMostValue = 1024;
  static constexpr std::size_t kMostPuts = 4 << 20;  ///< bytes of a node between two barriers

  struct Reply {
    int local_rank;
    std::string line;
  };

  Pmi1Server(const rendezvous::Layout& layout, const MpiNodes& nodes);

  /// The rank has sent `bytes`.
  void receive(int local_rank, std::string_view bytes);

  /// The replies and news since the last call.
  std::vector<Reply> take_replies();
  std::vector<MpiNews> take_news();

  /// Once for each barrier, when all ranks of the node are in it: the keys that they have put since
  /// the last one. end_barrier() has to follow.
  std::optional<std::string> take_barrier();

  /// All nodes are in the barrier: `puts` are the keys of all of them, one after the other.
  void end_barrier(std::string_view puts);

 private:
  struct Rank {
    std::string line;  // not complete yet
    bool in_spawn = false;
    bool in_barrier = false;
    bool called_init = false;
    bool broken = false;
  };

  void take_line(int local_rank, std::string_view line);
  void init(int local_rank, std::string_view line);
  void put(int local_rank, std::string_view line);
  void get(int local_rank, std::string_view line);
  void refuse_spawn(int local_rank);
  void refuse(int local_rank, const std::string& what);
  void reply(int local_rank, std::string line);

  const rendezvous::Layout layout_;
  const std::string name_;
  std::vector<Rank> ranks_;
  int in_barrier_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
  std::string puts_;  // since the last barrier, "key value\n"
  std::vector<Reply> replies_;
  std::vector<MpiNews> news_;
};

}  // namespace ddprun::agent
