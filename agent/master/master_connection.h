// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/job/job_spec.h"
#include "agent/master/elected_master.h"
#include "agent/master/master.h"
#include "base/async_jobs.h"
#include "base/error.h"
#include "base/fd.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/node.h"
#include "rendezvous/session/client.h"
#include "rendezvous/session/local_store_proxy.h"
#include "rendezvous/session/server.h"

namespace ddprun::agent {

/// Marks the process of this host that is a job's master, if the master has several ports: a free
/// port does not show whether an earlier process of the job is stuck, and still has its workers.
/// The mark is a name in the network namespace, like the ports. The kernel frees it when its
/// process has ended. Nobody can connect to it, or send it anything.
class MasterMark {
 public:
  /// The mark of this user's job with this id.
  explicit MasterMark(const std::string& run_id);

  /// Takes the mark. Returns false if another process of this user has it. Returns true also if the
  /// kernel refuses such sockets, or another user has taken the name: then nothing is known.
  bool take();

  /// The inode of the owner's socket when take() failed; 0: unknown.
  std::uint32_t owner() const { return owner_; }

 private:
  std::string name_;
  Fd socket_;
  std::uint32_t owner_ = 0;
};

/// This node's connection to the job's master. If the endpoint is an address of this host, the
/// master runs in this process.
///
/// Thread: the executor's.
class MasterConnection {
 public:
  /// `job` must outlive it. `report` gets the client's events.
  MasterConnection(boost::asio::any_io_executor executor, const JobSpec& job, std::string host_name,
                   rendezvous::Client::Report report);

  /// Looks up the endpoint's addresses, as MasterSearch::start; finds none for an elected master.
  void search(MasterSearch::Found found);

  /// If one of `addresses` is this host's, hosts the master at the first free one of its ports.
  /// Then makes the client. If another process has the port, that should be the master. If that
  /// process never answers (it may be stuck, and of an earlier job), or is lost before this node's
  /// first round, this node becomes the master once the port is free: it makes a new client, and
  /// calls `became_master` from the executor. A node may also be elected later; calls
  /// `stepped_down` if an elected master had to end. Errors: as Server::listen.
  Result<> open(const rendezvous::Resolver::Addresses& addresses,
                std::function<void()> became_master, std::function<void()> stepped_down);

  /// While false, call only search() and request_waiting_for().
  bool is_open() const { return client_ != nullptr; }
  rendezvous::Client& client() { return *client_; }

  /// The master in this process; nullptr: it runs elsewhere.
  rendezvous::Server* hosted() { return elected_ ? elected_->hosted() : server_.get(); }

  /// Whether the master of this name was elected, and is or was in this process.
  bool has_hosted(const std::string& master) const {
    return elected_ && elected_->has_been(master);
  }

  /// Ends the master in this process, if etcd elected it. Calls `done` when another one may come.
  void resign(std::function<void()> done);

  /// A request to join, with this process's facts for the master. Errors: system (no port is free
  /// for a store of rank 0).
  Result<rendezvous::JoinRequest> join_request() const;

  /// Call it before the workers of a round start.
  void begin_round() {
    taken_.clear();  // a member waits for its master to come back
    if (store_proxy_) store_proxy_->begin_round();
  }

  /// The endpoint at which the workers of a round find their store.
  rendezvous::Endpoint store_of(const rendezvous::Layout& layout) const;

  /// Asks what this node waits for: WaitingFor has the answer.
  void request_waiting_for();

 private:
  Result<> host(const rendezvous::Resolver::Addresses& where);
  Result<> host_at_first_free(const rendezvous::Resolver::Addresses& where);
  bool host_at_taken();
  Result<std::unique_ptr<rendezvous::Server>> listen(
      const rendezvous::Resolver::Addresses& where) const;
  void await_port();
  bool has_answer() const;
  Result<> open_store_proxy();
  void make_client();
  void find_place(const rendezvous::Client::Located& located);
  void on(const rendezvous::NodeEvent& event);

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  const std::string host_name_;
  const rendezvous::Client::Report report_;
  MasterSearch search_;
  bool is_host_ = false;  // the endpoint is an address of this host
  MasterMark mark_;
  rendezvous::Resolver::Addresses taken_;  // where another process listens; empty: nowhere
  bool is_welcome_ = false;                // some master has welcomed this node
  std::string taken_by_ = "another process of this host";
  AsyncJobs looks_;
  // The endpoints of a master with several ports. The client dials the one that welcomed it last,
  // or else the next one.
  const std::vector<rendezvous::Endpoint> places_;
  size_t next_place_ = 0;
  size_t dialed_place_ = 0;
  std::function<void()> became_master_;
  boost::asio::steady_timer port_pause_;
  std::unique_ptr<rendezvous::Server> server_;
  std::unique_ptr<ElectedMaster> elected_;
  std::unique_ptr<rendezvous::LocalStoreProxy>
      store_proxy_;  // nullptr: workers connect to the master
  std::unique_ptr<rendezvous::Client> client_;
};

}  // namespace ddprun::agent
