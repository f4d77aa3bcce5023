// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/shared_memory.h"

#include <exception>
#include <optional>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/cpu/connections.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/handover.h"
#include "collectives/backends/shm/numa.h"

namespace ddp::internal {
namespace {

/// At the name of the rank's port, which no other process of its network namespace has.
ShmMeeting meeting_of(const CpuMesh& mesh, int rank) {
  const auto& [endpoint, token] = mesh.listeners().at(rank);
  return {"ddp memory of " + endpoint.address().to_string() + " " + std::to_string(endpoint.port()),
          token};
}

/// Where this rank takes memory from: of the first rank that offers it here. `rank` is this one if
/// none before it does.
struct Source {
  int rank = 0;
  std::optional<ShmTaker> taker = {};
};

Source first_source(const CpuMesh& mesh) {
  for (int other = 0; other < mesh.rank(); ++other) {
    if (!mesh.listeners().may_share_memory(other)) continue;
    ShmTaker taker(meeting_of(mesh, other));
    if (taker.is_connected()) return {other, std::move(taker)};
  }
  return {mesh.rank()};
}

/// The first rank of a node makes its memory; nullopt if that fails, or this rank is alone.
std::optional<ShmArena> map_memory(const GroupContext& context, CpuMesh& mesh, ShmOffer& offer,
                                   Source& source, const Nodes& nodes) {
  const auto& own = nodes.of(mesh.rank());
  const int size = static_cast<int>(own.size());
  if (size == 1 || size > ShmCollectives::kMostRanks) return std::nullopt;
  if (own.front() == mesh.rank()) {
    ddprun::Fd memory = ShmArena::create(size);
    if (!memory) return std::nullopt;
    offer.hand_over(memory);
    return ShmArena::map(std::move(memory), size, 0);
  }
  return ShmArena::map(source.taker->take(context.timeout), size, nodes.place_of(mesh.rank()));
}

/// Those that this rank may use, and their node; none if the kernel knows more than there is room
/// for.
void write_cpus(ShmMember& member) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  member.numa_node = numa_node_of(allowed).value_or(-1) + 1;
  for (std::size_t cpu = 0; cpu < kShmCpuWords * 64 && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) member.cpus[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  }
}

/// Connects to the listener of every other of these ranks.
std::vector<HangupWatch::Connection> connect_to(CpuMesh& mesh, const std::vector<int>& ranks) {
  boost::asio::io_context context;
  std::vector<HangupWatch::Connection> connections;
  for (int place = 0; place < static_cast<int>(ranks.size()); ++place) {
    const int other = ranks[static_cast<std::size_t>(place)];
    if (other == mesh.rank()) continue;
    const auto& [endpoint, token] = mesh.listeners().at(other);
    const Frame greeting{.kind = Frame::Kind::watch, .tag = mesh.rank(), .number = token};
    boost::asio::ip::tcp::socket socket(context);
    socket.connect(endpoint);
    set_socket_options(socket);
    socket.write_some(boost::asio::buffer(&greeting, sizeof(greeting)));
    connections.push_back({place, ddprun::Fd(socket.release())});
  }
  return connections;
}

/// Not if descriptors or threads are used up. Should another rank be lost instead, the next
/// exchange with it says so.
bool is_watching(ShmCollectives& shared, CpuMesh& mesh, const std::vector<int>& ranks) {
  try {
    shared.watch(connect_to(mesh, ranks));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<ShmArena> map_with_node(const GroupContext& context, CpuListeners& listeners,
                                      CpuMesh& mesh, CpuCollectives& whole, Nodes& nodes) {
  std::optional<ShmOffer> offer(std::in_place, meeting_of(mesh, mesh.rank()), mesh.size() - 1);
  listeners.learn(whole.all_gather(listeners.own()));  // from now on all offers are there, too
  Source source = first_source(mesh);
  nodes = Nodes(whole.all_gather(source.rank));
  auto arena = map_memory(context, mesh, *offer, source, nodes);
  offer.reset();  // those who still wait for memory get none
  if (arena) write_cpus(arena->members()[nodes.place_of(mesh.rank())]);
  if (nodes.largest() > 1) nodes = nodes.without_broken(whole.all_gather<int>(arena ? 1 : 0));
  if (nodes.of(mesh.rank()).size() == 1) return std::nullopt;
  return arena;
}

}  // namespace

/// A step that fails on one rank is known to all before the next. Ranks that are alone take part,
/// unless all are.
SharedMemory share_memory(const GroupContext& context, CpuListeners& listeners, CpuMesh& mesh,
                          CpuCollectives& whole) {
  SharedMemory shared;
  auto arena = map_with_node(context, listeners, mesh, whole, shared.nodes);
  const auto& own = shared.nodes.of(mesh.rank());
  if (arena) {
    const bool is_whole = static_cast<int>(own.size()) == context.size;
    shared.collectives = std::make_unique<ShmCollectives>(context_of_part(context, own),
                                                          std::move(*arena), is_whole);
  }
  if (shared.nodes.largest() == 1) return shared;
  const bool watches = arena && is_watching(*shared.collectives, mesh, own);
  shared.nodes = shared.nodes.without_broken(whole.all_gather<int>(watches ? 1 : 0));
  if (shared.nodes.of(mesh.rank()).size() == 1) shared.collectives.reset();
  return shared;
}

}  // namespace ddp::internal
