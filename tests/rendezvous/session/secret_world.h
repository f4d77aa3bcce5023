// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/server.h"
#include "tests/catch.h"
#include "tests/must.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"

namespace ddprun::rendezvous {

inline std::shared_ptr<const Security> security_of(const std::string& secret,
                                                   const std::string& run_id = "job") {
  return must(Security::of_job(Secret(secret), run_id));
}

/// A server whose job has a secret, or none.
struct SecretWorld : World {
  explicit SecretWorld(const RoundSpec& spec,
                       std::shared_ptr<const Security> of_job = security_of("our secret")) {
    security = std::move(of_job);
    start_server(spec);
  }

  Client::Options options(const std::string& name, std::shared_ptr<const Security> of_agent) const {
    Client::Options options = Member::options(name, endpoint());
    options.security = std::move(of_agent);
    return options;
  }

  /// The bytes that a stranger who sends `bytes` receives until it is disconnected; it waits for an
  /// answer.
  std::string answer_to(const std::string& bytes) { return exchange(bytes, true); }

  /// The same if it hangs up at once.
  std::string answer_after(const std::string& bytes) { return exchange(bytes, false); }

 private:
  std::string exchange(const std::string& bytes, bool waits) {
    Peer stranger(*this);
    stranger.send(bytes);
    if (waits) until([&] { return stranger.closed || !stranger.received.empty(); });
    stranger.end();
    until([&] { return stranger.closed; });
    return stranger.received;
  }
};

/// The reason for which a member that joins gives up.
inline std::string reason_for(SecretWorld& world, const Client::Options& options) {
  Member member(world, options);
  member.join();
  world.until([&] { return member.gave_up.has_value(); });
  CHECK(member.gave_up->code == Errc::usage);
  CHECK(member.welcomes.empty());
  return member.gave_up->message;
}

inline std::string begin_of(const World& world) {
  return world.endpoint().text() + " refused this node: ";
}

}  // namespace ddprun::rendezvous
