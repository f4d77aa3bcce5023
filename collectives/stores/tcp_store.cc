// SPDX-License-Identifier: Apache-2.0
#include "ddp/tcp_store.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "collectives/errors.h"
#include "collectives/kept_from_children.h"
#include "collectives/stores/store_host.h"
#include "collectives/time_limit.h"
#include "store/client.h"

namespace ddp {
namespace {

using StoreClient = ddprun::store::Client;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// The longest time for a reply to a request that does not wait; then the server is lost.
constexpr milliseconds kReplyLimit = std::chrono::seconds(30);

// The key in which PyTorch's stores count each other; it lacks the '/' of users' keys.
constexpr const char* kCount = "init/";
constexpr milliseconds kCountAgain{5};

std::string on_wire(std::string_view key) {
  std::string name = "/";
  name += key;
  return name;
}

std::vector<std::string> on_wire(const std::vector<std::string>& keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::string& key : keys) names.push_back(on_wire(key));
  return names;
}

}  // namespace

struct TcpStore::Impl {
  std::optional<internal::StoreHost> served;
  std::string host;
  std::uint16_t port = 0;
  std::string server;
  std::string local_address;

  std::mutex mutex;
  std::vector<StoreClient> idle;
  std::optional<Error> lost;

  ddprun::Result<StoreClient> connect(milliseconds limit,
                                      const std::function<bool()>& is_pointless = {}) const {
    auto client = StoreClient::connect(host, port, limit, kReplyLimit, is_pointless);
    if (client) internal::keep_from_children(client->socket());
    return client;
  }

  StoreClient take(milliseconds limit) {
    {
      const std::scoped_lock lock(mutex);
      if (lost) throw Error(*lost);
      if (!idle.empty()) {
        StoreClient client = std::move(idle.back());
        idle.pop_back();
        return client;
      }
    }
    const auto is_lost = [this] {  // another thread may notice first, on its connection
      const std::scoped_lock lock(mutex);
      return lost.has_value();
    };
    auto client = connect(std::min(limit, kReplyLimit), is_lost);
    if (client) return std::move(*client);
    const std::scoped_lock lock(mutex);  // the server was reachable before, so it is lost
    if (!lost) lost = Error(ErrorKind::unreachable, "ddp: " + client.error().message);
    throw Error(*lost);
  }

  /// Returns the connection to the pool, or throws the error that broke it. Then the store as a
  /// whole is lost: a new server at the same port would not have its contents.
  void give_back(StoreClient client) {
    const std::scoped_lock lock(mutex);
    if (!client.lost()) {
      idle.push_back(std::move(client));
      return;
    }
    if (!lost) lost = internal::to_error(*client.lost());
    throw Error(*lost);
  }

  /// Counts this store among the job's; the master waits until all are counted. It polls, as
  /// PyTorch's does: no request of the protocol waits for a count.
  void join(StoreClient& client, int world_size, bool is_master, milliseconds limit) const {
    const auto deadline = steady_clock::now() + internal::bounded(limit);
    auto count = client.add(kCount, 1);
    while (count && is_master && *count < world_size) {
      if (steady_clock::now() > deadline) {
        throw Error(ErrorKind::timed_out,
                    "ddp: store at " + server + ": " + std::to_string(*count) + " of world_size " +
                        std::to_string(world_size) + " had connected within " +
                        internal::name_time(limit));
      }
      std::this_thread::sleep_for(kCountAgain);
      count = client.add(kCount, 0);
    }
    if (!count) throw internal::to_error(count.error());
  }

  /// Runs `request` on a connection that no other thread uses.
  template <class F>
  auto call(milliseconds limit, F request) {
    StoreClient client = take(limit);
    auto reply = request(client);
    give_back(std::move(client));
    if (!reply) throw internal::to_error(reply.error());
    if constexpr (!std::is_void_v<typename decltype(reply)::value_type>) return std::move(*reply);
  }
};

TcpStore::TcpStore(const std::string& host, std::uint16_t port, const TcpStoreOptions& options)
    : impl_(std::make_unique<Impl>()) {
  impl_->host = host;
  impl_->port = port;
  impl_->server = host + ":" + std::to_string(port);
  const auto refuse = [this](const std::string& what) {
    throw Error(ErrorKind::usage, "ddp: " + name() + ": " + what);
  };
  if (options.timeout.count() <= 0) {
    refuse("the timeout must be above 0, not " + internal::name_time(options.timeout));
  }
  if (options.world_size.value_or(1) < 1) {
    refuse("world_size must be above 0, not " + std::to_string(*options.world_size));
  }
  if (port == 0 && !options.is_master) refuse("port 0 is for the master alone");
  set_timeout(options.timeout);
  if (options.is_master) impl_->port = impl_->served.emplace(host, port).port();
  auto client = impl_->connect(internal::bounded(options.timeout));
  if (!client) throw internal::to_error(client.error());
  impl_->server = client->server();
  impl_->local_address = client->local_address();
  if (options.world_size) {
    impl_->join(*client, *options.world_size, options.is_master, options.timeout);
  }
  impl_->give_back(std::move(*client));
}

TcpStore::~TcpStore() = default;

std::uint16_t TcpStore::port() const noexcept {
  return impl_->port;
}

const std::string& TcpStore::local_address() const noexcept {
  return impl_->local_address;
}

std::string TcpStore::name() const {
  return "store at " + impl_->server;
}

void TcpStore::do_set(std::string_view key, std::string_view value) {
  impl_->call(timeout(), [&](StoreClient& client) { return client.set(on_wire(key), value); });
}

std::int64_t TcpStore::do_add(std::string_view key, std::int64_t amount) {
  return impl_->call(timeout(),
                     [&](StoreClient& client) { return client.add(on_wire(key), amount); });
}

bool TcpStore::do_check(const std::vector<std::string>& keys) {
  return impl_->call(timeout(), [&](StoreClient& client) { return client.check(on_wire(keys)); });
}

std::string TcpStore::do_compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) {
  return impl_->call(timeout(), [&](StoreClient& client) {
    return client.compare_set(on_wire(key), expected, desired);
  });
}

bool TcpStore::do_delete_key(std::string_view key) {
  return impl_->call(timeout(),
                     [&](StoreClient& client) { return client.delete_key(on_wire(key)); });
}

std::int64_t TcpStore::do_num_keys() {
  return impl_->call(timeout(), [&](StoreClient& client) { return client.num_keys(); });
}

void TcpStore::do_append(std::string_view key, std::string_view suffix) {
  impl_->call(timeout(), [&](StoreClient& client) { return client.append(on_wire(key), suffix); });
}

void TcpStore::do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  auto named = entries;
  for (auto& [key, value] : named) key.insert(0, 1, '/');
  impl_->call(timeout(), [&](StoreClient& client) { return client.multi_set(named); });
}

bool TcpStore::do_wait(const std::vector<std::string>& keys, Deadline deadline) {
  return impl_->call(timeout(), [&](StoreClient& client) -> ddprun::Result<bool> {
    const auto limit = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    const auto there = client.wait(on_wire(keys), std::max(limit, milliseconds(0)));
    if (there) return true;
    if (there.error().code == ddprun::Errc::timed_out && !client.lost()) return false;
    return there.error();
  });
}

std::vector<std::string> TcpStore::do_multi_get(const std::vector<std::string>& keys) {
  return impl_->call(timeout(),
                     [&](StoreClient& client) { return client.multi_get(on_wire(keys)); });
}

}  // namespace ddp
