// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/shared_memory.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <sched.h>
#include <utility>
#include <vector>

#include "collectives/backends/cpu/descriptors.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/offer.h"

namespace ddp::internal {
namespace {

/// The first message of a rank to the others.
struct Introduction {
  CpuListeners::Packed listener;
  ShmOffer offer;
};

/// The memory that this rank uses: that of the first rank whose memory it may open, or its own.
struct Source {
  int rank = 0;
  ddprun::Fd memory = {};
};

Source source_before(const CpuMesh& mesh, const std::vector<Introduction>& all) {
  for (int other = 0; other < mesh.rank(); ++other) {
    if (!mesh.listeners().may_share_memory(other)) continue;
    ddprun::Fd memory = open_offer(all[static_cast<std::size_t>(other)].offer);
    if (memory) return {other, std::move(memory)};
  }
  return {mesh.rank()};
}

/// Returns nullopt if mapping fails, or this rank is alone.
std::optional<ShmArena> map_memory(const CpuMesh& mesh, ddprun::Fd memory, const Nodes& nodes) {
  const int size = static_cast<int>(nodes.of(mesh.rank()).size());
  if (size == 1 || size > ShmCollectives::kMostRanks) return std::nullopt;
  return ShmArena::map(std::move(memory), size, nodes.place_of(mesh.rank()));
}

/// Writes the CPUs that this rank may use; none if the kernel knows too many.
void write_cpus(ShmMember& member) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (std::size_t cpu = 0; cpu < kShmCpuWords * 64 && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) member.cpus[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  }
}

/// Maps memory for the node. That for the whole group takes no more; the node is not known yet. If
/// a step fails on one rank, all know it before the next. Lone ranks take part, unless all are.
std::optional<ShmArena> map_with_node(CpuListeners& listeners, const CpuMesh& mesh,
                                      CpuCollectives& whole, Nodes& nodes) {
  ddprun::Fd own = ShmArena::create(std::min(mesh.size(), ShmCollectives::kMostRanks));
  const auto all = whole.all_gather(Introduction{listeners.own(), offer_of(own)});
  std::vector<CpuListeners::Packed> known;
  std::ranges::transform(all, std::back_inserter(known), &Introduction::listener);
  listeners.learn(known);
  Source source = source_before(mesh, all);
  nodes = Nodes(whole.all_gather(source.rank));  // after this no rank opens another's
  if (source.rank == mesh.rank()) source.memory = std::move(own);
  auto arena = map_memory(mesh, std::move(source.memory), nodes);
  const auto others = nodes.of(mesh.rank()).size() - 1;  // each connects, and is connected to
  if (arena && !has_descriptors(2 * others)) arena.reset();
  if (arena) write_cpus(arena->members()[nodes.place_of(mesh.rank())]);
  if (nodes.largest() > 1) nodes = nodes.without_broken(whole.all_gather<int>(arena ? 1 : 0));
  if (nodes.of(mesh.rank()).size() == 1) return std::nullopt;
  return arena;
}

}  // namespace

SharedMemory share_memory(const GroupContext& context, CpuListeners& listeners, const CpuMesh& mesh,
                          CpuCollectives& whole, CpuMessages& messages) {
  SharedMemory shared;
  auto arena = map_with_node(listeners, mesh, whole, shared.nodes);
  const auto& own = shared.nodes.of(mesh.rank());
  if (!arena) return shared;
  const bool is_whole = static_cast<int>(own.size()) == context.size;
  shared.collectives =
      std::make_unique<ShmCollectives>(context_of_part(context, own), std::move(*arena), is_whole);
  messages.connect(own);
  return shared;
}

}  // namespace ddp::internal
