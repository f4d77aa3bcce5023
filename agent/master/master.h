// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/job/job_spec.h"
#include "base/error.h"
#include "rendezvous/net/addresses.h"
#include "rendezvous/session/server.h"

namespace ddprun::agent {

/// The options of the job's rendezvous server.
rendezvous::Server::Options master_options(const JobSpec& job);

/// Whether workers reach the store through the agent of their node.
bool uses_tunnel(const JobSpec& job);

/// The endpoint as the user gave it.
rendezvous::Endpoint master_endpoint(const JobSpec& job);

/// Looks up the addresses of the job's endpoint. If a name does not resolve yet, such as that of a
/// service whose pods are starting, repeats the look-up until the join timeout.
///
/// Thread: the executor's.
class MasterSearch {
 public:
  using Found = std::function<void(Result<rendezvous::Resolver::Addresses>)>;

  /// `job` must outlive it.
  MasterSearch(boost::asio::any_io_executor executor, const JobSpec& job);

  /// Calls `found` once: at once if there is nothing to look up. Errors: timed_out.
  void start(Found found);

  /// The words after "waiting for".
  std::string waiting_for() const;

 private:
  void look_up();
  void look_up_again();

  const JobSpec& job_;
  rendezvous::Resolver resolver_;
  boost::asio::steady_timer pause_;
  std::chrono::steady_clock::time_point began_;
  Found found_;
  std::string reason_;
};

}  // namespace ddprun::agent
