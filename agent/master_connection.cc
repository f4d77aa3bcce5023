// SPDX-License-Identifier: Apache-2.0
#include "agent/master_connection.h"

#include <utility>

#include "agent/command_line.h"
#include "base/text.h"
#include "rendezvous/addresses.h"

namespace ddprun::agent {
namespace {

namespace asio = boost::asio;

constexpr int kListenAttempts = 9;

}  // namespace

MasterConnection::MasterConnection(asio::any_io_executor executor, const JobSpec& job,
                                   std::string host_name, rendezvous::Client::Hooks hooks)
    : executor_(std::move(executor)),
      job_(job),
      host_name_(std::move(host_name)),
      hooks_(std::move(hooks)),
      search_(executor_, job_) {}

Result<> MasterConnection::open(const rendezvous::Resolver::Addresses& addresses) {
  const auto where = rendezvous::where_to_host(master_endpoint(job_), addresses, job_.is_host);
  is_host_ = where.has_value();
  if (where) {
    if (const Result<> hosted = host(*where); !hosted) return hosted;
  }
  make_client();
  return {};
}

/// On a host with several agents, or with a rendezvous that runs alone, the first one has the port;
/// the others are its clients.
Result<> MasterConnection::host(const rendezvous::Resolver::Addresses& where) {
  Result<std::unique_ptr<rendezvous::Server>> server =
      rendezvous::Server::listen(executor_, where, master_options(job_));
  const auto is_taken = [&server] { return !server && server.error().code == Errc::usage; };
  // When two begin to listen at the same instant, Linux may refuse both.
  for (int attempt = 1; is_taken() && attempt < kListenAttempts; ++attempt) {
    server = rendezvous::Server::listen(executor_, where, master_options(job_));
  }
  const bool may_be_client = job_.max_nodes > 1 && !job_.is_host;
  if (is_taken() && may_be_client) return {};
  if (!server) return server.error();
  server_ = std::move(*server);
  return {};
}

void MasterConnection::make_client() {
  rendezvous::Client::Options options;
  options.server = master_endpoint(job_);
  if (!job_.local_addr.empty()) options.local = asio::ip::make_address(job_.local_addr);
  options.run_id = job_.run_id;
  options.min_nodes = job_.min_nodes;
  options.max_nodes = job_.max_nodes;
  options.host = host_name_;
  options.hosted = server_.get();
  options.security = job_.security;
  options.join_timeout = job_.join_timeout;
  client_ = std::make_unique<rendezvous::Client>(executor_, std::move(options), hooks_);
}

Result<rendezvous::JoinRequest> MasterConnection::join_request() const {
  rendezvous::JoinRequest request;
  request.local_size = job_.local_size;
  request.node_rank = job_.node_rank;
  request.host = host_name_;
  request.is_host = is_host_;
  request.hosting = server_ != nullptr;
  request.command = command_text(job_);
  request.command_hash = command_hash(job_);
  if (job_.cannot_run) request.cannot_run = job_.cannot_run->message;
  if (job_.store == StoreHost::worker) {
    const auto port = rendezvous::free_port(asio::ip::address_v4::any());
    if (!port) return port.error();
    request.store_port = *port;
  }
  return request;
}

/// The name is the user's, which holds for all workers, unless a worker hosts the store.
rendezvous::Endpoint MasterConnection::store_of(const rendezvous::Layout& layout) const {
  rendezvous::Endpoint store = master_endpoint(job_);
  if (server_ && store.port == 0) store.port = server_->address().port();
  if (layout.store_port != 0) store.port = static_cast<std::uint16_t>(layout.store_port);
  if (!layout.store_host.empty()) store.host = layout.store_host;
  return store;
}

void MasterConnection::request_waiting_for() {
  if (client_) return client_->request_waiting_for();
  hooks_.waiting(search_.waiting_for() + "; giving up after " + duration_text(job_.join_timeout) +
                 " (--join_timeout)");
}

}  // namespace ddprun::agent
