// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "agent/job/job_spec.h"
#include "base/error.h"
#include "rendezvous/etcd/candidate.h"
#include "rendezvous/session/client.h"
#include "rendezvous/session/server.h"

namespace ddprun::agent {

/// The master of a job, elected by etcd. It is in this process while this node is elected. This
/// node's agent connects to it and has a lease, like those of other nodes: so if this node stops
/// being the master, its workers are killed in time.
///
/// Thread: the executor's.
class ElectedMaster {
 public:
  /// `job` must outlive it. Calls `stepped_down` if hosted() had to end.
  ElectedMaster(const boost::asio::any_io_executor& executor, const JobSpec& job,
                std::function<void()> stepped_down);

  /// Calls `located` later, with the address of the master. It may be this node from now on.
  void find(rendezvous::Client::Located located) { candidate_.find(std::move(located)); }

  /// The session of this node's agent.
  void set_resident(std::string session) { resident_ = std::move(session); }

  /// The master in this process; nullptr: it is elsewhere.
  rendezvous::Server* hosted() { return server_.get(); }

  /// Whether the latest master in this process, which may be over, has this name.
  bool has_been(const std::string& name) const { return !name_.empty() && name == name_; }

  /// Ends hosted(), and does as Candidate::resign.
  void resign(std::function<void()> done);

 private:
  rendezvous::etcd::Candidate::Options candidate_options() const;
  rendezvous::etcd::Candidate::Hooks hooks();
  Result<> lead(const rendezvous::Endpoint& where, const rendezvous::JobState& state);
  void step_down(const std::string& reason);
  void end_server();

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  const rendezvous::Server::Options options_;  // this node's own: job_ has the master's later
  std::function<void()> stepped_down_;
  std::string resident_;
  std::unique_ptr<rendezvous::Server> server_;
  std::string name_;
  rendezvous::etcd::Candidate candidate_;
};

}  // namespace ddprun::agent
