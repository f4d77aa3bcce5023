// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "collectives/agreement/comparison.h"
#include "collectives/agreement/group_context.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/rounds.h"
#include "collectives/backends/shm/zero_copy.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "collectives/call/route.h"
#include "collectives/call/task.h"

namespace ddp::internal {

/// Does collective tasks in memory that all ranks of the group share.
///
/// A task consists of rounds. In a round each rank copies a piece of its data into its slot, and
/// the others copy or combine it from there. The first round compares the calls; little data needs
/// no other round. A rank that only sends little data in a call does not wait for the others, so it
/// compares the call later: see ShmRounds. The pieces stay in the caches, so data comes from main
/// memory once and goes there once. Long data in memory of allocate() is not copied at all: see
/// ShmZeroCopy.
///
/// Thread: one at a time, except stop().
class ShmCollectives {
 public:
  /// Every rank has set `cpus` of its member before. `is_whole`: no rank of the group is on another
  /// node.
  ShmCollectives(const GroupContext& context, ShmArena arena, bool is_whole);

  /// More ranks cannot share an arena: there is little room beside the counts of a call with
  /// unequal blocks.
  static constexpr int kMostRanks = 2048;

  /// Whether is_ready() may be true for a task.
  static bool is_little(const Task& task);
  /// Whether run() needs no wait for other ranks.
  bool is_ready(const Task& task);

  /// Returns when this rank's part is done. Throws ddp::Error, the agreed error, if the ranks'
  /// calls differ; and ShmStopped. After a throw, this object must not be used.
  void run(const Task& task, const Call& call);

  /// Allocates memory of this rank that the others map, too, for a task of Operation::allocate:
  /// large calls move its data without copies. Null if not every rank may have it. Throws as run().
  std::shared_ptr<void> allocate(const Task& task, const Call& call);

  const ShmArena& arena() const { return arena_; }
  std::shared_ptr<const ShmHeap> heap() const { return heap_; }

  /// The connection to a rank has ended: stops, unless the rank has left. Thread: any.
  void on_end(int rank) noexcept;

  /// See ShmRounds::leave(). If this rank's calls differ from those of a rank that left before,
  /// prints that. This is the last call.
  void leave();

  /// From now on run() throws ShmStopped if it has to wait. Later calls do not change `rank`.
  /// Thread: any.
  void stop(int rank) noexcept { rounds_.stop(rank); }

 private:
  /// How streams lie in the data that ranks show in a round.
  struct Pieces {
    std::size_t begin;   ///< after the counts, if there are any
    std::size_t length;  ///< the longest part of a stream
    bool apart;          ///< one stream for each rank, by rank; else one for all

    std::size_t place_for(int rank) const {
      return begin + (apart ? static_cast<std::size_t>(rank) * length : 0);
    }
  };

  void perform(const Task& task, const Call& call);
  bool is_true_on_all(bool mine, const Call& call);
  bool are_same_on_all(const ShmZeroCopy::Places& places, const Call& call);
  std::size_t bytes_of_counts(const Task& task) const;
  void show_counts(const Task& task);
  void compare_counts(const Call& call);
  [[noreturn]] void fail(const Call& call, const ShmMismatch& found);
  void tell_calls_of_others(std::uint64_t round, const std::vector<bool>& ended) const;
  bool is_reduced_whole(const Task& task) const;
  bool goes_one_way(const Task& task) const;
  void pass(const Task& task, const Call& call);
  void broadcast_little(const Task& task, const Call& call);
  std::uint64_t longest_of_all(std::uint64_t mine) const;

  std::uint64_t longest_of(const Route& route) const;
  void move(const Task& task, const Call& call);
  void stream(const Task& task, const Call& call, bool apart);
  Pieces pieces_of(const Task& task, bool apart) const;
  std::size_t extent(const Pieces& pieces, std::size_t bytes) const;
  void write(const Route& route, std::size_t at, const Pieces& pieces);
  void read(const Route& route, std::size_t at, const Pieces& pieces) const;

  void reduce_whole(const Task& task, const Call& call);
  void reduce_in_shares(const Task& task, const Call& call);
  std::size_t share_begin(std::size_t count, int rank) const;
  void collect_shares(char* out, std::size_t count, std::size_t width, std::size_t whole) const;
  void reduce_scatter(const Task& task, const Call& call);
  template <class PartOf>
  void combine(const Task& task, const PartOf& part_of, char* out, std::size_t count,
               std::size_t whole);

  GroupContext context_;
  const bool is_whole_;
  const ShmArena arena_;
  ShmRounds rounds_;
  const std::shared_ptr<ShmHeap> heap_;
  ShmZeroCopy zero_copy_;
  std::vector<Counts> counts_;      // the last call's whose counts may differ
  std::vector<const void*> parts_;  // the data to combine, by rank
  std::vector<char> scratch_;
  alignas(64) std::array<char, 8192> results_{};  // results to be written past the caches
  std::vector<std::atomic<bool>> ended_;          // by rank: its connection has
};

}  // namespace ddp::internal
