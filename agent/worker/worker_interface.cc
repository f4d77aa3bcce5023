// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_interface.h"

#include "base/log.h"
#include "rendezvous/net/addresses.h"

namespace ddprun::agent {

void note_interface(JobSpec& job, const boost::asio::ip::address& other) {
  if (job.max_nodes == 1) return;
  const std::string name =
      job.local_addr.empty()
          ? rendezvous::interface_towards(other)
          : rendezvous::interface_of(boost::asio::ip::make_address(job.local_addr));
  if (name.empty() || name == job.interface) return;
  job.interface = name;
  log::debug("GLOO_SOCKET_IFNAME is " + name + ", towards " + rendezvous::plain_text(other) +
             ", unless it is set");
}

void find_interface(JobSpec& job, const std::vector<std::string>& agents) {
  for (const std::string& agent : agents) {
    boost::system::error_code invalid;
    const auto address = boost::asio::ip::make_address(agent, invalid);
    if (!invalid && job.interface.empty()) note_interface(job, address);
  }
}

}  // namespace ddprun::agent
