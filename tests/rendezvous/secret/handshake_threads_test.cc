// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/secret/handshake_threads.h"

#include <list>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

using Role = SecureChannel::Role;

std::shared_ptr<const Security> security_from(const std::string& secret) {
  return must(Security::of_job(Secret(secret), "job"));
}

/// Agents that meet a master; most have its secret.
struct Meetings {
  static constexpr int kAgents = 200;
  static constexpr int kStrays = 40;

  /// Begins as many handshakes as there is room for.
  void begin() {
    while (threads->has_room() && begun < kAgents) {
      const bool is_stray = ++begun % (kAgents / kStrays) == 0;
      agents.push_back(std::make_unique<SecureChannel>(is_stray ? other : ours, Role::agent));
      threads->compute(ours, agents.back()->take_output(),
                       [this, agent = agents.back().get()](HandshakeThreads::Answer answer) {
                         meet(*agent, answer);
                         begin();
                       });
    }
  }

  void meet(SecureChannel& agent, HandshakeThreads::Answer& answer) {
    if (!answer.received) return void(++refused);
    must(agent.receive(answer.output));
    agent.send("hello");
    must(answer.channel->receive(agent.take_output()));
    if (answer.channel->take_received() == "hello") ++proven;
  }

  boost::asio::io_context io{1};
  std::shared_ptr<const Security> ours = security_from("ours");
  std::shared_ptr<const Security> other = security_from("another");
  std::unique_ptr<HandshakeThreads> threads = std::make_unique<HandshakeThreads>(io.get_executor());
  std::list<std::unique_ptr<SecureChannel>> agents;
  int begun = 0;
  int proven = 0;
  int refused = 0;
};

}  // namespace

TEST_CASE("the event loop ends handshakes that threads have begun") {
  Meetings meetings;
  meetings.begin();
  meetings.io.run();
  CHECK(meetings.proven == Meetings::kAgents - Meetings::kStrays);
  CHECK(meetings.refused == Meetings::kStrays);
}

TEST_CASE("destroying the threads drops the answers that they still compute") {
  Meetings meetings;
  meetings.begin();
  CHECK_FALSE(meetings.threads->has_room());
  meetings.threads.reset();
  CHECK(meetings.proven + meetings.refused == 0);
  meetings.io.run();
  CHECK(meetings.proven + meetings.refused == 0);
}
