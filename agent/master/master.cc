// SPDX-License-Identifier: Apache-2.0
#include "agent/master/master.h"

#include <utility>

#include "agent/job/report.h"
#include "base/text.h"

namespace ddprun::agent {

namespace {

constexpr std::chrono::milliseconds kPause{500};  // between two look-ups of a name

}  // namespace

rendezvous::Server::Options master_options(const JobSpec& job) {
  rendezvous::Server::Options options;
  options.run_id = job.run_id;
  options.round = static_cast<const rendezvous::RoundSpec&>(job);
  static_cast<rendezvous::LeaseSpec&>(options) = job;
  options.loss_text = loss_text;
  options.security = job.security;
  options.sealed_secret = job.sealed_secret;
  options.confirm_clients = job.security != nullptr;
  options.tunnels_only = uses_tunnel(job);
  return options;
}

bool uses_tunnel(const JobSpec& job) {
  return job.store == StoreHost::tunnel && job.max_nodes > 1;
}

rendezvous::Endpoint master_endpoint(const JobSpec& job) {
  return {job.master_addr, job.master_port};
}

MasterSearch::MasterSearch(boost::asio::any_io_executor executor, const JobSpec& job)
    : job_(job), resolver_(executor), pause_(executor) {}

void MasterSearch::start(Found found) {
  boost::system::error_code is_name;
  const auto address = boost::asio::ip::make_address(job_.master_addr, is_name);
  if (!is_name) return found(rendezvous::Resolver::Addresses{{address, job_.master_port}});
  // The user said whether this node is the host: no look-up is needed.
  if (job_.is_host) return found(rendezvous::Resolver::Addresses());
  began_ = std::chrono::steady_clock::now();
  found_ = std::move(found);
  look_up();
}

std::string MasterSearch::waiting_for() const {
  return "the master at " + master_endpoint(job_).text() + ": " +
         (reason_.empty() ? "looking up its name" : reason_);
}

void MasterSearch::look_up() {
  resolver_.resolve(master_endpoint(job_), [this](Result<rendezvous::Resolver::Addresses> result) {
    if (result) return found_(std::move(result));
    reason_ = result.error().message;
    look_up_again();
  });
}

void MasterSearch::look_up_again() {
  const auto waited = std::chrono::steady_clock::now() - began_;
  if (waited >= job_.join_timeout) {
    return found_(Error{Errc::timed_out, "timed out after " + duration_text(waited) +
                                             " (--join_timeout) waiting for " + waiting_for()});
  }
  pause_.expires_after(
      std::min<std::chrono::steady_clock::duration>(kPause, job_.join_timeout - waited));
  pause_.async_wait([this](boost::system::error_code cancelled) {
    if (!cancelled) look_up();
  });
}

}  // namespace ddprun::agent
