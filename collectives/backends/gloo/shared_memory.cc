// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/shared_memory.h"

#include <exception>
#include <optional>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/gloo/connections.h"
#include "collectives/backends/gloo/frame.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/handover.h"

namespace ddp::internal {
namespace {

/// At the name of rank 0's port, which no other process of its network namespace has.
ShmMeeting meeting_of(const GlooMesh& mesh) {
  const auto& [endpoint, token] = mesh.listeners().at(0);
  return {"ddp memory of " + endpoint.address().to_string() + " " + std::to_string(endpoint.port()),
          token};
}

/// Rank 0 offers the memory that it made. All steps are taken by all ranks, or by none.
std::optional<ShmArena> offer(const GroupContext& context, const GlooMesh& mesh,
                              GlooCollectives& collectives) {
  ddprun::Fd memory = ShmArena::create(context.size);
  ShmOffer offer(meeting_of(mesh), context.size - 1);
  if (!collectives.is_true_on_all(memory && offer.is_listening())) return std::nullopt;
  if (!collectives.is_true_on_all(true)) return std::nullopt;
  offer.hand_over(memory);
  return ShmArena::map(std::move(memory), context.size, context.rank);
}

std::optional<ShmArena> take(const GroupContext& context, GlooMesh& mesh,
                             GlooCollectives& collectives) {
  if (!collectives.is_true_on_all(true)) return std::nullopt;
  ShmTaker taker(meeting_of(mesh));
  if (!collectives.is_true_on_all(taker.is_connected())) return std::nullopt;
  mesh.set_partner(0);  // which is waited for
  return ShmArena::map(taker.take(context.timeout), context.size, context.rank);
}

/// Those that this rank may use; none if the kernel knows more than there is room for.
void write_cpus(ShmMember& member) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  for (std::size_t cpu = 0; cpu < kShmCpuWords * 64 && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) member.cpus[cpu / 64] |= std::uint64_t{1} << cpu % 64;
  }
}

/// Connects to the listener of every other rank, where PeerWatch did before.
std::vector<HangupWatch::Connection> connect_to_all(GlooMesh& mesh) {
  boost::asio::io_context context;
  std::vector<HangupWatch::Connection> connections;
  for (int other = 0; other < mesh.size(); ++other) {
    if (other == mesh.rank()) continue;
    mesh.set_partner(other);
    const auto& [endpoint, token] = mesh.listeners().at(other);
    const Frame greeting{.kind = Frame::Kind::watch, .tag = mesh.rank(), .number = token};
    boost::asio::ip::tcp::socket socket(context);
    socket.connect(endpoint);
    set_socket_options(socket);
    socket.write_some(boost::asio::buffer(&greeting, sizeof(greeting)));
    connections.push_back({other, ddprun::Fd(socket.release())});
  }
  return connections;
}

/// Not if descriptors or threads are used up. Should another rank be lost instead, the next
/// exchange with it says so.
bool is_watching(ShmCollectives& shared, GlooMesh& mesh) {
  try {
    shared.watch(connect_to_all(mesh));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::unique_ptr<ShmCollectives> share_memory(GroupContext& context, GlooMesh& mesh,
                                             GlooCollectives& collectives) {
  if (context.size > ShmCollectives::kMostRanks) return nullptr;
  auto arena =
      context.rank == 0 ? offer(context, mesh, collectives) : take(context, mesh, collectives);
  if (arena) write_cpus(arena->members()[context.rank]);
  if (!collectives.is_true_on_all(arena.has_value())) return nullptr;
  auto shared = std::make_unique<ShmCollectives>(context, std::move(*arena));
  const bool watches = is_watching(*shared, mesh);
  return collectives.is_true_on_all(watches) ? std::move(shared) : nullptr;
}

}  // namespace ddp::internal
