// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/mesh.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <random>
#include <sys/socket.h>
#include <system_error>

#include <boost/asio/buffer.hpp>
#include <gloo/common/error.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>

#include "collectives/backends/gloo/agreed_error.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

constexpr const char* kConnecting = "while connecting";

PeerWatch::Endpoint endpoint_of(const std::vector<char>& address) {
  const sockaddr_storage storage = gloo::transport::tcp::Address(address).getSockaddr();
  PeerWatch::Endpoint endpoint;  // of IPv4, and as large as that, before it has the data
  std::memcpy(endpoint.data(), &storage,
              storage.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return endpoint;
}

std::uint64_t random_token() {
  std::random_device random;  // 32 bits at a time
  return std::uint64_t{random()} << 32U | random();
}

}  // namespace

/// What another rank told when it joined, as far as it is for us.
struct GlooMesh::Peer {
  PeerWatch::Peer watch;
  std::vector<char> address;  // of its end of our connection
};

GlooMesh::GlooMesh(GroupContext& context)
    : context_(context),
      watch_(context.address),
      token_(random_token()),
      neighbours_(static_cast<std::size_t>(context.size)),
      addresses_(static_cast<std::size_t>(context.size)) {
  const gloo::transport::tcp::attr where(context_.address.c_str());
  gloo_context_ = gloo::transport::tcp::CreateDevice(where)->createContext(rank(), size());
  gloo_context_->setTimeout(gloo::kNoTimeout);  // PeerWatch sees to it here, and the watchdog later
  join();
  wait_for_everyone(context_, "joined");
  std::vector<Peer> peers;
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) peers.push_back(find(other));
  }
  connect(peers);
}

/// Tells "ADDRESS PORT TOKEN\n", to watch us and to connect for messages, then for every other
/// rank, in order, the address of our end of its connection, all of one length.
void GlooMesh::join() {
  const auto watched = watch_.endpoint();
  std::string told = watched.address().to_string() + " " + std::to_string(watched.port()) + " " +
                     std::to_string(token_) + "\n";
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    auto& address = addresses_[static_cast<std::size_t>(other)];
    address = gloo_context_->createPair(other)->address().bytes();
    told.append(address.begin(), address.end());
  }
  ask_store(context_, [&](Store& store) { store.set(key(rank()), told); });
}

/// What another rank told, as join() does.
GlooMesh::Peer GlooMesh::find(int other) {
  std::string told;
  ask_store(context_, [&](Store& store) { told = store.get(key(other), context_.timeout); });
  const std::size_t space = told.find(' ');
  const std::size_t line = told.find('\n');
  if (line == std::string::npos || space > line) {
    throw Error(ErrorKind::system, "ddp: rank " + std::to_string(context_.named(rank())) + ": " +
                                       key(other) + " in the store is not of this program");
  }
  const auto host = boost::asio::ip::make_address(told.substr(0, space));
  char* end = nullptr;
  const auto port = static_cast<std::uint16_t>(std::strtoul(told.c_str() + space, &end, 10));
  const std::uint64_t token = std::strtoull(end, nullptr, 10);
  neighbours_[static_cast<std::size_t>(other)] = {{host, port}, token};
  const std::size_t length = (told.size() - line - 1) / static_cast<std::size_t>(size() - 1);
  const int place = rank() < other ? rank() : rank() - 1;
  const char* address = told.data() + line + 1 + static_cast<std::size_t>(place) * length;
  const Frame greeting{.kind = Frame::Kind::watch, .tag = rank(), .number = token};
  return {{other, {host, port}, greeting}, {address, address + length}};
}

/// Ends Gloo's wait for `other`, if it waits for that side to come. To close our end would reset a
/// connection that is just made, and a Gloo that has yet to accept that ends its process.
void GlooMesh::come_instead_of(int other, boost::asio::ip::tcp::socket& stand_in) const {
  const auto& ours = addresses_[static_cast<std::size_t>(other)];
  boost::system::error_code refused;  // then nobody waits
  stand_in.connect(endpoint_of(ours), refused);
  // Newer releases of Gloo share one port, and read first whom the connection is for.
  const auto sequence = gloo::transport::tcp::Address(ours).getSeq();
  if (!refused) stand_in.write_some(boost::asio::buffer(&sequence, sizeof(sequence)), refused);
}

void GlooMesh::connect(const std::vector<Peer>& peers) {
  std::atomic<bool> stopped = false;
  std::optional<std::string> failure;
  const auto work = [&] {
    try {
      for (const Peer& peer : peers) {
        turn_to(peer.watch.rank);
        if (stopped) return;
        pair(peer.watch.rank).connect(peer.address);
        pair(peer.watch.rank).setSync(true, false);
      }
    } catch (const std::exception& thrown) {
      failure = what_gloo_says(thrown);
    }
  };
  std::optional<Error> error;  // agreed on before the connections break
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket stand_in(context);
  const auto lost = [&](int other, const std::string& reason) {
    error = agree_on_loss(context_, kConnecting, other, reason);
    stopped = true;
    come_instead_of(partner(), stand_in);
  };
  const auto timed_out = [&] {
    error = agree_on_timeout(context_, kConnecting, partner());
    stopped = true;
    pair(partner()).close();
  };
  std::vector<PeerWatch::Peer> watched;
  for (const Peer& peer : peers) watched.push_back(peer.watch);
  turn_to(watched.front().rank);
  PeerWatch::during(work, {lost, timed_out}, watched, context_.timeout);
  if (error) throw Error(*error);
  if (failure) throw agree_on_loss(context_, kConnecting, partner(), *failure);
  keep_sockets(peers);
}

/// Of a connection one end has the address that this rank or the other told.
void GlooMesh::keep_sockets(const std::vector<Peer>& peers) {
  std::vector<PeerWatch::Endpoint> told;
  for (const Peer& peer : peers) {
    told.push_back(endpoint_of(peer.address));
    told.push_back(endpoint_of(addresses_[static_cast<std::size_t>(peer.watch.rank)]));
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    PeerWatch::Endpoint theirs;
    PeerWatch::Endpoint ours;
    auto length = static_cast<socklen_t>(theirs.capacity());
    if (::getpeername(fd, theirs.data(), &length) != 0) continue;
    if (::getsockname(fd, ours.data(), &length) != 0) continue;
    if (std::ranges::count(told, theirs) + std::ranges::count(told, ours) > 0) {
      const ddprun::Fd& kept = sockets_.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
      if (!kept)
        throw std::system_error(errno, std::generic_category(), "cannot keep a connection");
    }
  }
}

void GlooMesh::abort() noexcept {
  for (const ddprun::Fd& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
}

}  // namespace ddp::internal
