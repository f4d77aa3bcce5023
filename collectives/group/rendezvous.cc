// SPDX-License-Identifier: Apache-2.0
#include "collectives/group/rendezvous.h"

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/errors.h"
#include "collectives/group/environment.h"
#include "collectives/group/init_method.h"
#include "collectives/group/own_address.h"
#include "collectives/stores/store_host.h"
#include "ddp/file_store.h"
#include "ddp/tcp_store.h"

namespace ddp::internal {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: " + what);
}

/// Returns rank and size of the options or of the init_method, else the launcher's.
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

/// Returns the options' names of ranks, if there are any.
std::vector<int> find_names(const Options& options, int size) {
  if (options.names.empty()) return {};
  if (!options.store) refuse("names of ranks are given without a store");
  if (options.names.size() != static_cast<std::size_t>(size)) {
    refuse(std::to_string(options.names.size()) + " names are given for " + std::to_string(size) +
           (size == 1 ? " rank" : " ranks"));
  }
  return options.names;
}

/// Opens a file once for all groups of the process, until the process exits: other ranks may still
/// be in the first group when this one joins the next.
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

/// Connects to the store of the method. If the launcher does not serve it, rank 0 does, and
/// rank_0_serves is set. Completes the prefix.
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
  try {
    return std::make_shared<TcpStore>(address.host, address.port,
                                      TcpStoreOptions{.timeout = context.timeout});
  } catch (const Error& error) {
    if (!context.rank_0_serves || context.rank == 0) throw;
    throw Error(error.kind(), std::string(error.what()) + ": rank 0 serves it");
  }
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
  context.whole = find_names(options, own.size);
  if (context.size == 1) return context;
  context.prefix = "ddp/";
  at_rank(context.rank, [&] {
    context.store = options.store ? options.store : connect_store(context, method);
    context.address = own_address(*context.store, options.backend);
    // The n-th group that this rank joins through this store: the same number on every rank.
    const std::string counter = context.prefix + "groups/" + std::to_string(context.rank);
    context.prefix += std::to_string(context.store->add(counter, 1) - 1) + "/";
  });
  return context;
}

}  // namespace ddp::internal
