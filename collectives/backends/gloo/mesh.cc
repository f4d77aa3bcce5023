// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/mesh.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
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

}  // namespace

GlooMesh::GlooMesh(GroupContext& context, const GlooListeners& listeners)
    : context_(context),
      listeners_(listeners),
      ours_(static_cast<std::size_t>(context.size)),
      theirs_(static_cast<std::size_t>(context.size)) {
  const gloo::transport::tcp::attr where(context_.address.c_str());
  gloo_context_ = gloo::transport::tcp::CreateDevice(where)->createContext(rank(), size());
  gloo_context_->setTimeout(gloo::kNoTimeout);  // PeerWatch has one here, and the watchdog later
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    ours_[static_cast<std::size_t>(other)] = gloo_context_->createPair(other)->address().bytes();
  }
}

/// Sets a key for each other rank, to the address of our end of the connection to it. So a rank
/// fetches what is for it, and not what is for others: in a large group that would be most of the
/// data. The last rank tells all that it is.
void GlooMesh::publish_addresses() {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    const auto& address = ours_[static_cast<std::size_t>(other)];
    entries.emplace_back(pair_key(rank(), other), std::string(address.begin(), address.end()));
  }
  ask_store(context_, [&](Store& store) {
    store.multi_set(entries);
    if (store.add(context_.prefix + "paired", 1) == size()) {
      store.set(context_.prefix + "all_paired", "");
    }
  });
}

/// In slices: nothing ends a wait for the store.
void GlooMesh::wait_for_addresses() const {
  constexpr std::chrono::milliseconds kLook = std::chrono::seconds(1);
  while (true) {
    throw_if_stopped();
    try {
      ask_store(context_,
                [&](Store& store) { store.wait({context_.prefix + "all_paired"}, kLook); });
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::timed_out) throw;
    }
  }
}

void GlooMesh::read_addresses() {
  std::vector<std::string> keys;
  for (int other = 0; other < size(); ++other) {
    if (other != rank()) keys.push_back(pair_key(other, rank()));
  }
  std::vector<std::string> texts;
  ask_store(context_, [&](Store& store) { texts = store.multi_get(keys, context_.timeout); });
  auto text = texts.begin();
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    theirs_[static_cast<std::size_t>(other)].assign(text->begin(), text->end());
    ++text;
  }
}

void GlooMesh::connect_pairs() {
  phase_ = Phase::pairing;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    set_partner(other);
    throw_if_stopped();
    pair(other).connect(theirs_[static_cast<std::size_t>(other)]);
    pair(other).setSync(true, false);
  }
  duplicate_sockets();
  phase_ = Phase::connected;
  throw_if_stopped();
}

void GlooMesh::throw_if_stopped() const {
  if (is_stopped_) throw own_error(context_, ErrorKind::system, " gave up connecting");
}

/// The one that this rank waits for.
int GlooMesh::late_rank() const {
  if (phase_ != Phase::meeting) return partner();
  try {
    for (int other = 0; other < size(); ++other) {
      const std::string key = pair_key(other, (other + 1) % size());
      if (other != rank() && !context_.store->check({key})) return other;
    }
  } catch (const Error&) {
    // The store is lost, too.
  }
  return partner();
}

/// Ends Gloo's connect() to `other`, if that waits for the other side, by connecting in its place.
/// To close our end instead could reset a connection that was just made, and a Gloo that has yet to
/// accept such a one ends its process.
void GlooMesh::unblock_connect(int other) {
  const auto& ours = ours_[static_cast<std::size_t>(other)];
  const std::lock_guard lock(unblocker_mutex_);
  boost::system::error_code refused;  // then Gloo does not wait
  auto& socket = unblockers_.emplace_back(unblocker_context_);
  socket.connect(endpoint_of(ours), refused);
  // Newer releases of Gloo share one port, and read first which pair the connection is for.
  const auto sequence = gloo::transport::tcp::Address(ours).getSeq();
  if (!refused) socket.write_some(boost::asio::buffer(&sequence, sizeof(sequence)), refused);
}

void GlooMesh::connect(std::chrono::milliseconds limit, const std::function<void()>& connected) {
  set_partner(rank() == 0 ? 1 : 0);
  std::optional<Error> failed;
  const auto work = [&] {
    try {
      publish_addresses();
      wait_for_addresses();
      read_addresses();
      connect_pairs();
      connected();
    } catch (const Error& error) {
      failed = error;
    } catch (const std::exception& thrown) {
      failed = agree_on_loss(context_, kConnecting, partner(), gloo_message(thrown));
    }
  };
  std::optional<Error> error;  // agreed on before connections are closed
  const auto lost = [&](int other, const std::string& reason) {
    error = agree_on_loss(context_, kConnecting, other, reason);
    abort();
  };
  const auto timed_out = [&] {
    error = agree_on_timeout(context_, kConnecting, late_rank());
    abort();
  };
  PeerWatch::during(work, {lost, timed_out}, listeners_.others(), limit);
  if (error) throw Error(*error);
  if (failed) throw Error(*failed);
}

/// Gloo does not expose its sockets. They are found by their addresses: one end of each connection
/// has an address that this rank or the other published.
void GlooMesh::duplicate_sockets() {
  std::vector<PeerWatch::Endpoint> published;
  for (int other = 0; other < size(); ++other) {
    if (other == rank()) continue;
    published.push_back(endpoint_of(theirs_[static_cast<std::size_t>(other)]));
    published.push_back(endpoint_of(ours_[static_cast<std::size_t>(other)]));
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
  is_stopped_ = true;
  const Phase phase = phase_;
  if (phase == Phase::pairing) unblock_connect(partner());
  if (phase != Phase::connected) return;
  for (const ddprun::Fd& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
}

std::string gloo_message(const std::exception& thrown) {
  const std::string text = thrown.what();
  const std::size_t end = text.starts_with('[') ? text.find("] ") : std::string::npos;
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace ddp::internal
