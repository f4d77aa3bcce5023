// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/mesh.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <random>
#include <sstream>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <gloo/common/error.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>

#include "collectives/backends/agreed_error.h"
#include "collectives/errors.h"

namespace ddp::internal {
namespace {

constexpr const char* kConnecting = "while connecting";

PeerWatch::Endpoint endpoint_of(const std::vector<char>& address) {
  const sockaddr_storage storage = gloo::transport::tcp::Address(address).getSockaddr();
  PeerWatch::Endpoint endpoint;  // its memory has room for IPv6, too
  std::memcpy(endpoint.data(), &storage,
              storage.ss_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  return endpoint;
}

std::uint64_t random_token() {
  std::random_device random;  // 32 bits at a time
  return std::uint64_t{random()} << 32U | random();
}

}  // namespace

/// What another rank published for this one.
struct GlooMesh::Peer {
  PeerWatch::Peer watch;
  std::vector<char> address;  // of its end of the connection to this rank
};

GlooMesh::GlooMesh(GroupContext& context)
    : context_(context),
      peer_watch_(context.address),
      listeners_(static_cast<std::size_t>(context.size)),
      addresses_(static_cast<std::size_t>(context.size)) {
  listeners_[static_cast<std::size_t>(rank())] = {peer_watch_.endpoint(), random_token()};
  const gloo::transport::tcp::attr where(context_.address.c_str());
  gloo_context_ = gloo::transport::tcp::CreateDevice(where)->createContext(rank(), size());
  gloo_context_->setTimeout(gloo::kNoTimeout);  // PeerWatch has one here, and the watchdog later
  publish_addresses();
  wait_for_all_ranks(context_, "joined");
}

/// Sets a key for each other rank, to the address of our end of the connection to it, and then this
/// rank's key to "ADDRESS PORT TOKEN BACKEND", of its listener. So a rank fetches what is for it,
/// and not what is for others: in a large group that would be most of the data.
void GlooMesh::publish_addresses() {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    auto& address = addresses_[static_cast<std::size_t>(other)];
    address = gloo_context_->createPair(other)->address().bytes();
    entries.emplace_back(pair_key(rank(), other), std::string(address.begin(), address.end()));
  }
  const auto& [endpoint, token] = listener(rank());
  entries.emplace_back(key(rank()), endpoint.address().to_string() + " " +
                                        std::to_string(endpoint.port()) + " " +
                                        std::to_string(token) + " " + context_.backend);
  ask_store(context_, [&](Store& store) { store.multi_set(entries); });
}

/// What the other ranks published, in their order.
std::vector<GlooMesh::Peer> GlooMesh::read_addresses() {
  std::vector<std::string> keys;
  for (int other = 0; other < size(); ++other) keys.push_back(key(other));
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) keys.push_back(pair_key(other, rank()));
  }
  std::vector<std::string> texts;
  ask_store(context_, [&](Store& store) { texts = store.multi_get(keys, context_.timeout); });
  const auto ranks = static_cast<std::size_t>(size());
  check_backends({texts.begin(), texts.begin() + size()});
  std::vector<Peer> peers;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    const std::string& address = texts[ranks + peers.size()];
    peers.push_back(parse(other, texts[static_cast<std::size_t>(other)], address));
  }
  return peers;
}

GlooMesh::Peer GlooMesh::parse(int other, const std::string& listener, const std::string& address) {
  std::istringstream text(listener);
  std::string host;
  std::uint16_t port = 0;
  std::uint64_t token = 0;
  if (!(text >> host >> port >> token) || address.empty()) {
    throw own_error(context_, ErrorKind::system,
                    ": " + key(other) + " in the store is not of this program");
  }
  const auto place = boost::asio::ip::make_address(host);
  listeners_[static_cast<std::size_t>(other)] = {{place, port}, token};
  const Frame greeting{.kind = Frame::Kind::watch, .tag = rank(), .number = token};
  return {{other, {place, port}, greeting}, {address.begin(), address.end()}};
}

/// The default backend depends on what a host has, so ranks may come to different ones.
void GlooMesh::check_backends(const std::vector<std::string>& lines) const {
  const auto backend = [](const std::string& line) { return line.substr(line.rfind(' ') + 1); };
  const auto other = std::ranges::find_if(
      lines, [&](const auto& line) { return backend(line) != backend(lines.front()); });
  if (other == lines.end()) return;
  outlast_other_ranks();
  throw own_error(context_, ErrorKind::mismatch,
                  ": ranks do not agree on the backend: " + backend(lines.front()) +
                      " on rank 0, " + backend(*other) + " on rank " +
                      std::to_string(other - lines.begin()) +
                      "; name one in Options::backend on all of them");
}

/// Lets the others read the keys first, if the store ends with this process.
void GlooMesh::outlast_other_ranks() const {
  GroupContext brief = context_;
  brief.timeout = std::min(context_.timeout, std::chrono::milliseconds(5000));
  try {
    ask_store(brief, [&](Store& store) {
      store.set(context_.prefix + "leaving/" + std::to_string(rank()), "");
    });
    if (context_.rank_0_serves && rank() == 0) wait_for_all_ranks(brief, "leaving");
  } catch (const Error&) {
    // They are late, or gone.
  }
}

/// Ends Gloo's connect() to `other`, if that waits for the other side, by connecting in its place.
/// To close our end instead could reset a connection that was just made, and a Gloo that has yet to
/// accept such a one ends its process.
void GlooMesh::unblock_connect(int other, boost::asio::ip::tcp::socket& socket) const {
  const auto& ours = addresses_[static_cast<std::size_t>(other)];
  boost::system::error_code refused;  // then Gloo does not wait
  socket.connect(endpoint_of(ours), refused);
  // Newer releases of Gloo share one port, and read first which pair the connection is for.
  const auto sequence = gloo::transport::tcp::Address(ours).getSeq();
  if (!refused) socket.write_some(boost::asio::buffer(&sequence, sizeof(sequence)), refused);
}

void GlooMesh::connect(const std::function<void()>& connected) {
  const std::vector<Peer> peers = read_addresses();
  std::atomic<bool> stopped = false;
  std::optional<std::string> failure;
  const auto work = [&] {
    try {
      for (const Peer& peer : peers) {
        set_partner(peer.watch.rank);
        if (stopped) return;
        pair(peer.watch.rank).connect(peer.address);
        pair(peer.watch.rank).setSync(true, false);
      }
      duplicate_sockets(peers);
      connected_ = true;
      if (!stopped) connected();
    } catch (const std::exception& thrown) {
      failure = gloo_message(thrown);
    }
  };
  std::optional<Error> error;  // agreed on before connections are closed
  boost::asio::io_context context;
  boost::asio::ip::tcp::socket unblocker(context);
  const auto lost = [&](int other, const std::string& reason) {
    error = agree_on_loss(context_, kConnecting, other, reason);
    stopped = true;
    connected_ ? abort() : unblock_connect(partner(), unblocker);
  };
  const auto timed_out = [&] {
    error = agree_on_timeout(context_, kConnecting, partner());
    stopped = true;
    connected_ ? abort() : pair(partner()).close();
  };
  std::vector<PeerWatch::Peer> watched;
  for (const Peer& peer : peers) watched.push_back(peer.watch);
  set_partner(watched.front().rank);
  PeerWatch::during(work, {lost, timed_out}, watched, context_.timeout);
  if (error) throw Error(*error);
  if (failure) throw agree_on_loss(context_, kConnecting, partner(), *failure);
}

/// Gloo does not expose its sockets. They are found by their addresses: one end of each connection
/// has an address that this rank or the other published.
void GlooMesh::duplicate_sockets(const std::vector<Peer>& peers) {
  std::vector<PeerWatch::Endpoint> published;
  for (const Peer& peer : peers) {
    published.push_back(endpoint_of(peer.address));
    published.push_back(endpoint_of(addresses_[static_cast<std::size_t>(peer.watch.rank)]));
  }
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::atoi(entry.path().filename().c_str());
    PeerWatch::Endpoint theirs;
    PeerWatch::Endpoint ours;
    auto length = static_cast<socklen_t>(theirs.capacity());
    if (::getpeername(fd, theirs.data(), &length) != 0) continue;
    if (::getsockname(fd, ours.data(), &length) != 0) continue;
    if (std::ranges::count(published, theirs) + std::ranges::count(published, ours) > 0) {
      const ddprun::Fd& duplicate = sockets_.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
      if (!duplicate)
        throw std::system_error(errno, std::generic_category(), "cannot keep a connection");
    }
  }
}

void GlooMesh::abort() noexcept {
  for (const ddprun::Fd& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
}

std::string gloo_message(const std::exception& thrown) {
  const std::string text = thrown.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace ddp::internal
