// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "agent/agent.h"
#include "base/log.h"
#include "rendezvous/addresses.h"

namespace ddprun::agent {

/// By which workers of several nodes reach each other, as far as is known.
void Agent::note_interface(const boost::asio::ip::address& other) {
  if (job_.max_nodes == 1) return;
  const std::string name =
      job_.local_addr.empty()
          ? rendezvous::interface_towards(other)
          : rendezvous::interface_of(boost::asio::ip::make_address(job_.local_addr));
  if (name.empty() || name == job_.interface) return;
  job_.interface = name;
  log::debug("GLOO_SOCKET_IFNAME is " + name + ", towards " + rendezvous::plain_text(other) +
             ", unless it is set");
}

/// A host's own name may stand for a loopback address there, so the master's node looks for its way
/// to another one.
void Agent::find_interface() {
  if (!job_.interface.empty() || !master_.hosted()) return;
  for (const std::string& agent : master_.hosted()->agent_addresses()) {
    boost::system::error_code invalid;
    const auto address = boost::asio::ip::make_address(agent, invalid);
    if (!invalid && job_.interface.empty()) note_interface(address);
  }
}

}  // namespace ddprun::agent
