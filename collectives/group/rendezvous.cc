// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/rendezvous.h"

#include <array>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "collectives/errors.h"
#include "collectives/group/environment.h"
#include "collectives/group/init_method.h"
#include "collectives/stores/store_host.h"
#include "ddp/file_store.h"
#include "ddp/tcp_store.h"

namespace ddp::internal {
namespace {

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: " + what);
}

/// Those of the options or the init_method, else the launcher's.
RankInfo find_rank(const Options& options, const InitMethod& method) {
  const auto rank = options.rank ? options.rank : method.rank;
  const auto size = options.world_size ? options.world_size : method.world_size;
  if (!rank && !size) return read_rank_info();
  if (!rank || !size) {
    refuse(std::string(rank ? "rank" : "world_size") + " is given without " +
           (rank ? "world_size" : "rank"));
  }
  if (*size < 1) refuse("world_size " + std::to_string(*size) + " is not above 0");
  if (*rank < 0 || *rank >= *size) {
    refuse("rank " + std::to_string(*rank) + " is not from 0 to " + std::to_string(*size - 1));
  }
  return {*rank, *size};
}

/// The address of this host's interface on the way to `other`, a numeric address or a name; empty:
/// there is no way. Sends nothing to it.
std::string address_on_the_way_to(const std::string& other) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(other.c_str(), "9", &hints, &found) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, ::freeaddrinfo);
  const ddprun::Fd socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  std::array<char, NI_MAXHOST> text{};
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  const bool is_known =
      ::connect(socket.get(), found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(socket.get(), address, &size) == 0 &&
      ::getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return is_known ? text.data() : "";
}

/// The address of the interface of this host's default route.
std::string address_of_host() {
  const std::string address = address_on_the_way_to("192.0.2.1");  // of no host (RFC 5737)
  return address.empty() ? "127.0.0.1" : address;
}

/// Where the agent of this node carries the store's connections to the master, they come from the
/// loopback interface: then the way to the master decides.
std::string address_towards(const TcpStore& store) {
  const std::string& own = store.local_address();
  const char* const master = std::getenv("DDPRUN_MASTER_ADDR");
  if (master == nullptr || !is_loopback(own)) return own;
  const std::string address = address_on_the_way_to(master);
  return address.empty() ? own : address;
}

/// The address of this host by which the users of the store reach it.
std::string address_towards(const std::shared_ptr<Store>& store) {
  if (const auto tcp = std::dynamic_pointer_cast<TcpStore>(store)) return address_towards(*tcp);
  if (const auto prefix = std::dynamic_pointer_cast<PrefixStore>(store)) {
    return address_towards(prefix->underlying());
  }
  if (std::dynamic_pointer_cast<HashStore>(store)) return "127.0.0.1";
  return address_of_host();
}

/// The process opens a file once, for all of its groups, and closes it at exit: other ranks may
/// still be in the first group when this one joins the next.
std::shared_ptr<Store> file_of_process(const std::string& path, int world_size,
                                       std::chrono::milliseconds timeout) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<Store>> files;
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Store>& file = files[path];
  if (!file) {
    file = std::make_shared<FileStore>(
        path, FileStoreOptions{.world_size = world_size, .timeout = timeout});
  }
  return file;
}

/// The store of the method, which rank 0 serves if the launcher does not: sets rank_0_serves, and
/// completes the prefix.
std::shared_ptr<Store> connect_store(GroupContext& context, const InitMethod& method) {
  if (method.scheme == InitMethod::Scheme::file) {
    return file_of_process(method.path, context.size, context.timeout);
  }
  const StoreAddress address = method.scheme == InitMethod::Scheme::tcp
                                   ? StoreAddress{.host = method.host, .port = method.port}
                                   : read_store_address();
  // torchrun's store outlives a restart, with the keys and counts of the ranks before. (It does not
  // count a restart that only a change of nodes caused; PyTorch's own groups have that limit, too.)
  if (address.restarts > 0) context.prefix += "restart_" + std::to_string(address.restarts) + "/";
  context.rank_0_serves = !address.agent;
  if (context.rank_0_serves && context.rank == 0) host_store(address.host, address.port);
  return std::make_shared<TcpStore>(address.host, address.port,
                                    TcpStoreOptions{.timeout = context.timeout});
}

}  // namespace

GroupContext rendezvous(const Options& options, std::chrono::milliseconds timeout) {
  const InitMethod method = parse_init_method(options.init_method);
  const RankInfo own = find_rank(options, method);
  GroupContext context{};
  context.rank = own.rank;
  context.size = own.size;
  context.timeout = timeout;
  context.device = options.device;
  context.nccl = options.nccl;
  if (context.size == 1) return context;
  context.prefix = "ddp/";
  at_rank(context.rank, [&] {
    context.store = options.store ? options.store : connect_store(context, method);
    context.address = address_towards(context.store);
    // The n-th group that this rank joins through this store: the same number on every rank.
    const std::string counter = context.prefix + "groups/" + std::to_string(context.rank);
    context.prefix += std::to_string(context.store->add(counter, 1) - 1) + "/";
  });
  return context;
}

}  // namespace ddp::internal
