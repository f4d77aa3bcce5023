// SPDX-License-Identifier: Apache-2.0
#include "agent/gone_message.h"

#include "rendezvous/protocol.h"

namespace ddprun::agent {

std::string gone_message(const std::string& session, const launcher::ExitStatus& agent) {
  using namespace rendezvous;
  const std::string how = agent.signal() != 0 ? "its agent was " + agent.text()
                                              : "its ddprun ended (" + agent.text() + ")";
  return greeting() + encode(message::Gone{session, how});
}

}  // namespace ddprun::agent
