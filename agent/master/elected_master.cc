// SPDX-License-Identifier: Apache-2.0
#include "agent/master/elected_master.h"

#include <utility>

#include <boost/asio/post.hpp>

#include "agent/master/master.h"
#include "base/log.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::agent {

namespace asio = boost::asio;

ElectedMaster::ElectedMaster(const asio::any_io_executor& executor, const JobSpec& job,
                             std::function<void()> stepped_down)
    : executor_(executor),
      job_(job),
      options_(master_options(job)),
      stepped_down_(std::move(stepped_down)),
      candidate_(executor, candidate_options(), hooks()) {}

rendezvous::etcd::Candidate::Options ElectedMaster::candidate_options() const {
  rendezvous::etcd::Candidate::Options options;
  options.etcd.servers = *job_.etcd;
  if (!job_.local_addr.empty()) options.etcd.local = asio::ip::make_address(job_.local_addr);
  options.run_id = job_.run_id;
  options.lease = options_.lease;
  options.host = job_.local_addr;
  return options;
}

rendezvous::etcd::Candidate::Hooks ElectedMaster::hooks() {
  return {.lead = [this](const auto& where, const auto& state) { return lead(where, state); },
          .recorded = [this] { server_->recorded(); },
          .delayed =
              [](const std::string& reason) {
                log::warning(
                    "the next round, or the end of the job, waits until it is written to etcd: " +
                    reason);
              },
          .stepped_down = [this](const std::string& reason) { step_down(reason); }};
}

Result<> ElectedMaster::lead(const rendezvous::Endpoint& where, const rendezvous::JobState& state) {
  const auto addresses = rendezvous::resolve({"", where.port});  // every address: no look-up
  if (!addresses) return addresses.error();
  rendezvous::Server::Options options = options_;
  options.resident = resident_;
  options.inherited = state;
  options.record = [this](const rendezvous::JobState& next) { candidate_.record(next); };
  auto server = rendezvous::Server::listen(executor_, *addresses, std::move(options));
  if (!server) return server.error();
  server_ = std::move(*server);
  name_ = server_->name();
  log::info("this node is the master of job '" + job_.run_id + "', at " + where.text());
  return {};
}

void ElectedMaster::step_down(const std::string& reason) {
  log::warning("this node is not the master of job '" + job_.run_id + "' any more: " + reason);
  end_server();
  stepped_down_();
}

/// Ends the server before the key: a successor expects that nobody else renews leases of nodes.
void ElectedMaster::resign(std::function<void()> done) {
  end_server();
  candidate_.resign(std::move(done));
}

/// Destroys the server later, as it may be the caller, but before handlers posted from now on.
void ElectedMaster::end_server() {
  asio::post(executor_, [server = std::shared_ptr<rendezvous::Server>(std::move(server_))] {});
}

}  // namespace ddprun::agent
