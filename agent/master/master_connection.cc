// SPDX-License-Identifier: Apache-2.0
#include "agent/master/master_connection.h"

#include <cerrno>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/post.hpp>

#include "agent/ask/unix_socket.h"
#include "agent/job/job_spec.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/net/port_owner.h"
#include "rendezvous/secret/munge.h"

namespace ddprun::agent {
namespace {

constexpr int kAttempts = 9;

}  // namespace

/// Hashes the job's id: everybody can read such names, and a stranger may join with just the id.
MasterMark::MasterMark(const std::string& run_id)
    : name_('\0' + ("ddprun-master/" + std::to_string(geteuid())) + "/" + sha256(run_id)) {}

/// The socket does not listen, so nobody can connect to it or send it anything. If the kernel does
/// not say who has the name, it is safer to wait.
bool MasterMark::take() {
  if (socket_) return true;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return true;
    if (bind_to(socket, name_)) {
      socket_ = std::move(socket);
      return true;
    }
    if (errno != EADDRINUSE) return true;
    const std::optional<AbstractSocket> holder = abstract_socket(name_);
    if (holder && holder->user != geteuid()) return true;
    owner_ = holder ? holder->inode : 0;
    if (holder) return false;
  }
  return false;
}

namespace {

namespace asio = boost::asio;
namespace node_event = rendezvous::node_event;

constexpr int kListenAttempts = 9;
constexpr std::chrono::milliseconds kPortPause{500};  // between two attempts to listen

Error port_taken(Error error, const rendezvous::Resolver::Addresses& where) {
  error.message += "; " + rendezvous::port_owner(where) + " has it";
  return error;
}

/// The endpoints of a master with several ports; empty: it has one port.
std::vector<rendezvous::Endpoint> places_of(const JobSpec& job) {
  std::vector<rendezvous::Endpoint> places;
  if (!job.more_ports.empty()) places.push_back(master_endpoint(job));
  for (const std::uint16_t port : job.more_ports) places.push_back({job.master_addr, port});
  return places;
}

rendezvous::Resolver::Addresses at_port(rendezvous::Resolver::Addresses addresses,
                                        std::uint16_t port) {
  for (auto& address : addresses) address.port(port);
  return addresses;
}

}  // namespace

MasterConnection::MasterConnection(asio::any_io_executor executor, const JobSpec& job,
                                   std::string host_name, rendezvous::Client::Report report)
    : executor_(std::move(executor)),
      job_(job),
      host_name_(std::move(host_name)),
      report_(std::move(report)),
      search_(executor_, job_),
      mark_(job_.run_id),
      looks_(executor_),
      places_(places_of(job_)),
      port_pause_(executor_) {}

void MasterConnection::search(MasterSearch::Found found) {
  if (job_.etcd) return found(rendezvous::Resolver::Addresses());
  search_.start(std::move(found));
}

Result<> MasterConnection::open(const rendezvous::Resolver::Addresses& addresses,
                                std::function<void()> became_master,
                                std::function<void()> stepped_down) {
  if (const Result<> opened = open_store_proxy(); !opened) return opened;
  if (job_.etcd) {
    elected_ = std::make_unique<ElectedMaster>(executor_, job_, std::move(stepped_down));
    make_client();
    elected_->set_resident(client_->session());
    return {};
  }
  became_master_ = std::move(became_master);
  const auto where = rendezvous::where_to_host(master_endpoint(job_), addresses, job_.is_host);
  is_host_ = where.has_value();
  if (where) {
    if (const Result<> hosted = host_at_first_free(*where); !hosted) return hosted;
  }
  make_client();
  if (taken_.empty()) return {};
  looks_.run(
      [where = taken_, has_mark = !places_.empty(), mark = mark_.owner()] {
        return has_mark ? rendezvous::socket_owner(mark) : rendezvous::port_owner(where);
      },
      [this](std::string owner) { taken_by_ = std::move(owner); });
  await_port();
  return {};
}

/// Hosts the master at the first free port. Other nodes try the same ports until this job's master
/// answers. While an earlier process of this job has the mark, no port is tried: if it is stuck,
/// its workers may run until it ends. Only the last error names the port's owner: that search may
/// have to read the whole process table.
Result<> MasterConnection::host_at_first_free(const rendezvous::Resolver::Addresses& where) {
  const auto is_taken = [](const Result<>& hosted) {
    return !hosted && hosted.error().code == Errc::port_in_use;
  };
  if (!places_.empty() && job_.max_nodes > 1 && !mark_.take()) {
    taken_ = where;
    return {};
  }
  rendezvous::Resolver::Addresses at = where;
  Result<> hosted = host(at);
  size_t i = 0;
  while (is_taken(hosted) && i + 1 < places_.size()) {
    ++i;
    if (taken_.empty()) {  // else this is one of many attempts
      log::info("port " + std::to_string(places_[i - 1].port) + " of this host is taken: trying " +
                std::to_string(places_[i].port) + ", the job's next one");
    }
    at = at_port(where, places_[i].port);
    hosted = host(at);
  }
  if (hosted && !places_.empty()) report_(node_event::Located{places_[i]});
  return is_taken(hosted) ? port_taken(hosted.error(), at) : hosted;
}

/// If the host has several agents, or also a `ddprun serve`, the first of them has the port; the
/// others are its clients.
Result<> MasterConnection::host(const rendezvous::Resolver::Addresses& where) {
  auto server = listen(where);
  const auto is_taken = [&server] { return !server && server.error().code == Errc::port_in_use; };
  // If two processes begin to listen at the same instant, Linux may refuse both.
  for (int attempt = 1; is_taken() && attempt < kListenAttempts; ++attempt) server = listen(where);
  const bool may_be_client = job_.max_nodes > 1 && !job_.is_host;
  if (is_taken() && may_be_client) return taken_ = where, Result<>();
  if (!server) return server.error();
  server_ = std::move(*server);
  return {};
}

Result<std::unique_ptr<rendezvous::Server>> MasterConnection::listen(
    const rendezvous::Resolver::Addresses& where) const {
  return rendezvous::Server::listen(executor_, where, master_options(job_));
}

/// Polls: no event shows that a port is free. Stops if the process at the port answers: as long as
/// it does, it is the master.
void MasterConnection::await_port() {
  port_pause_.expires_after(kPortPause);
  port_pause_.async_wait([this](boost::system::error_code cancelled) {
    if (cancelled || taken_.empty() || has_answer()) return;
    if (!host_at_taken()) return await_port();
    taken_.clear();
    make_client();
    became_master_();
  });
}

bool MasterConnection::host_at_taken() {
  if (!places_.empty()) {
    const rendezvous::Resolver::Addresses where = taken_;
    return host_at_first_free(where) && server_;
  }
  auto server = listen(taken_);
  if (server) server_ = std::move(*server);
  return server_ != nullptr;
}

bool MasterConnection::has_answer() const {
  return is_welcome_ && !client_->is_unreachable();
}

Result<> MasterConnection::open_store_proxy() {
  if (!uses_tunnel(job_)) return {};
  rendezvous::LocalStoreProxy::Options options;
  options.security = [this] { return client_->security(); };
  if (!job_.local_addr.empty()) options.local = asio::ip::make_address(job_.local_addr);
  options.master = [this] { return master_endpoint(job_); };
  options.hosted = [this] { return hosted(); };
  store_proxy_ = std::make_unique<rendezvous::LocalStoreProxy>(executor_, std::move(options));
  return store_proxy_->open();
}

void MasterConnection::make_client() {
  rendezvous::Client::Options options;
  options.server = master_endpoint(job_);
  if (!places_.empty() && !server_) {
    options.locate = [this](const auto& located) { find_place(located); };
    options.master = options.server.text();
    options.searched = true;
  }
  if (elected_) {
    options.locate = [this](auto located) { elected_->find(std::move(located)); };
    options.master = "an address from etcd at " + job_.etcd->text();
  }
  if (!job_.local_addr.empty()) options.local = asio::ip::make_address(job_.local_addr);
  options.run_id = job_.run_id;
  options.min_nodes = job_.min_nodes;
  options.max_nodes = job_.max_nodes;
  options.host = host_name_;
  options.hosted = server_.get();
  options.security = job_.security;
  if (!job_.sealed_secret.empty()) {
    options.open_secret = [run_id = job_.run_id](const std::string& sealed) {
      return rendezvous::munge_open(sealed, run_id);
    };
  }
  options.join_timeout = job_.join_timeout;
  client_ = std::make_unique<rendezvous::Client>(
      executor_, std::move(options), [this](const rendezvous::NodeEvent& event) { on(event); });
}

/// Dials the ports in turn. After a welcome, dials the same port again.
void MasterConnection::find_place(const rendezvous::Client::Located& located) {
  dialed_place_ = next_place_;
  next_place_ = (next_place_ + 1) % places_.size();
  asio::post(executor_, [located, place = places_[dialed_place_]] { located(place); });
}

/// Passes an event on to the node. Changes it if this connection knows better than the client.
void MasterConnection::on(const rendezvous::NodeEvent& event) {
  const bool is_searched = !places_.empty();
  if (is_searched && std::holds_alternative<node_event::Located>(event)) return;
  if (std::holds_alternative<node_event::Welcomed>(event)) {
    is_welcome_ = true;
    if (is_searched && !server_) {
      next_place_ = dialed_place_;
      report_(node_event::Located{places_[dialed_place_]});
    }
  }
  const auto* waiting = std::get_if<node_event::WaitingFor>(&event);
  if (waiting != nullptr && !taken_.empty() && !has_answer()) {
    return report_(
        node_event::WaitingFor{waiting->sentence + "; " + taken_by_ +
                               " has its port: when it is free, this node becomes the master"});
  }
  report_(event);
  const bool changed = std::holds_alternative<node_event::ConnectionChanged>(event);
  if (changed && !taken_.empty() && !has_answer()) await_port();
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
  request.role = job_.role;
  if (job_.cannot_run) request.cannot_run = job_.cannot_run->message;
  if (job_.store == StoreHost::worker) {
    const auto port = rendezvous::free_port(asio::ip::address_v4::any());
    if (!port) return port.error();
    request.store_port = *port;
  }
  return request;
}

/// Has the host's name as the user gave it, valid for all workers, unless a worker hosts the store.
rendezvous::Endpoint MasterConnection::store_of(const rendezvous::Layout& layout) const {
  if (store_proxy_) return store_proxy_->address();
  rendezvous::Endpoint store = master_endpoint(job_);
  if (server_ && store.port == 0) store.port = server_->address().port();
  if (layout.store_port != 0) store.port = static_cast<std::uint16_t>(layout.store_port);
  if (!layout.store_host.empty()) store.host = layout.store_host;
  return store;
}

void MasterConnection::resign(std::function<void()> done) {
  elected_ ? elected_->resign(std::move(done)) : done();
}

void MasterConnection::request_waiting_for() {
  if (client_) return client_->request_waiting_for();
  report_(node_event::WaitingFor{search_.waiting_for() + "; giving up after " +
                                 duration_text(job_.join_timeout) + " (--join_timeout)"});
}

}  // namespace ddprun::agent
