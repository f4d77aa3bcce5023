// SPDX-License-Identifier: Apache-2.0
// Secrets that the master hands out sealed, for munge to open.
#include <atomic>
#include <memory>
#include <string>

#include "rendezvous/secret/munge.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/server.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/secret_world.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;

namespace {

/// The options of a node that opens the master's sealed secret by `open_secret`.
Client::Options munging(const SecretWorld& world, const std::string& name,
                        KeyRequest::Open open_secret) {
  Client::Options options = world.options(name, security_of("of this node alone"));
  options.open_secret = std::move(open_secret);
  return options;
}

/// Opens it as munge would, if "sealed X" were X sealed.
Result<Secret> opened(const std::string& sealed) {
  return Secret(sealed.substr(std::string("sealed ").size()));
}

/// A server that hands its secret out sealed.
struct SealedWorld : SecretWorld {
  explicit SealedWorld(const RoundSpec& spec) : SecretWorld(spec) { restart(spec, "our secret"); }

  void restart(const RoundSpec& spec, const std::string& secret) {
    server.reset();
    security = security_of(secret);
    sealed_secret = "sealed " + secret;
    start_server(spec);
  }
};

}  // namespace

TEST_CASE("only bytes that were sealed as this job's secret are accepted") {
  const Secret secret(std::string(32, 'x'));
  const auto sealed = [&](const Secret& of, const std::string& run_id) {
    return std::string(sealed_bytes(of, run_id).view());
  };
  CHECK(must(secret_in(sealed(secret, "job"), "job")).view() == secret.view());
  const std::string bytes = sealed(secret, "job");
  std::string other_tag = bytes;
  other_tag[0] ^= 1;
  for (const std::string& forged :
       {std::string(), std::string(32, 'x'), std::string("MUNGE of something else"), other_tag,
        bytes.substr(1), bytes.substr(0, bytes.size() - 1), bytes + "x", sealed(Secret(), "job"),
        sealed(secret, "jab"), sealed(secret, "job2"), sealed(secret, "jo"), sealed(secret, "")}) {
    INFO(forged);
    const Result<Secret> opened = secret_in(forged, "job");
    REQUIRE(!opened);
    CHECK(opened.error().code == Errc::usage);
    CHECK(opened.error().message == "munge: it is not the secret of job 'job' (--rdzv_id)");
  }
  CHECK(!secret_in(sealed(Secret(std::string(31, 'x')), "jobx"), "job"));
}

TEST_CASE("nodes that can open the master's sealed secret join with it") {
  SealedWorld world(nodes(2, 2));
  Member first(world, munging(world, "first", opened));
  Member second(world, munging(world, "second", opened));
  first.join();
  second.join();
  CHECK(first.next<Ready>().layout.node_count == 2);
  CHECK(second.next<Ready>().layout.node_count == 2);
  CHECK(first.client.security()->key().bytes.view() == world.security->key().bytes.view());
}

TEST_CASE("a node that cannot open the sealed secret ends, and says why") {
  SealedWorld world(nodes(2, 2));
  const auto refuses = [](const std::string&) -> Result<Secret> {
    return Error{Errc::usage, "munge: Unauthorized credential"};
  };
  CHECK(reason_for(world, munging(world, "stray", refuses)) ==
        world.endpoint().text() +
            " has a secret that cannot be opened here: munge: Unauthorized credential");
}

TEST_CASE("a node asks again when munge did not answer") {
  SealedWorld world(nodes(1, 2));
  const auto tries = std::make_shared<std::atomic<int>>(0);
  Client::Options options =
      munging(world, "patient", [tries](const std::string& sealed) -> Result<Secret> {
        if (++*tries > 2) return opened(sealed);
        return Error{Errc::unreachable, "munge: Socket communication error"};
      });
  options.min_nodes = 1;
  Member member(world, options);
  member.join();
  member.next<Ready>();
  CHECK(*tries == 3);
}

TEST_CASE("a secret that another master sealed opens no line") {
  SealedWorld world(nodes(2, 2));
  const auto another = [](const std::string&) -> Result<Secret> { return Secret("another's"); };
  CHECK(contains(reason_for(world, munging(world, "stray", another)),
                 begin_of(world) + "the two secrets differ"));
}

TEST_CASE("a node with munge is refused by a master without a secret, and both sides say so") {
  SecretWorld world(nodes(2, 2), nullptr);
  const std::string reason = reason_for(world, munging(world, "stray", opened));
  CHECK(contains(reason, begin_of(world) + "the master's job has no secret, and this node gets"));
  CHECK(world.logged("refused a node at 127.0.0.1: the master's job has no secret"));
}

TEST_CASE("a node with munge is refused by a master that was given its secret") {
  SecretWorld world(nodes(2, 2));
  const std::string reason = reason_for(world, munging(world, "stray", opened));
  CHECK(contains(reason, begin_of(world) + "it admits only nodes with its secret"));
  CHECK(world.logged("refused a node at 127.0.0.1: it admits only nodes with its secret"));
}

TEST_CASE("a node without munge is refused by a master with it, and both sides say so") {
  SealedWorld world(nodes(2, 2));
  Member member(world, world.options("stray", nullptr));
  member.join();
  CHECK(contains(member.next<Refused>().sentence, "which they get by munge"));
  CHECK(world.logged("refused a node at 127.0.0.1: it admits only nodes with its secret"));
}

TEST_CASE("a connection that asks for the sealed secret can do nothing else") {
  SealedWorld world(nodes(1, 1));
  Peer stranger(world);
  stranger.send(greeting());
  stranger.say(message::GetSecret{});
  CHECK(stranger.next_reply<reply::SealedSecret>().credential == "sealed our secret");
  stranger.say(message::Hello{"job", 1, 1, "x", "s", 0});
  stranger.say(message::Ask{});
  Client::Options options = munging(world, "member", opened);
  options.min_nodes = options.max_nodes = 1;
  Member member(world, options);
  member.join();
  member.next<Ready>();
  CHECK(stranger.received.empty());
}

TEST_CASE("a server that answers the request for the sealed secret otherwise is no master") {
  SealedWorld world(nodes(2, 2));
  ListenSocket other(world);
  Client::Options options = munging(world, "careful", opened);
  options.server = other.endpoint();
  Member member(world, options);
  member.join();
  const auto peer = other.next();
  peer->answer(reply::Welcome{"it"});
  world.until([&] { return member.gave_up.has_value(); });
  CHECK(contains(member.gave_up->message,
                 "the server at " + other.endpoint().text() + " is not a ddprun master"));
  CHECK_FALSE(contains(peer->received, "careful"));
}

TEST_CASE("a node gets the secret of a master that was restarted") {
  SealedWorld world(nodes(1, 2));
  Client::Options options = munging(world, "member", opened);
  options.min_nodes = 1;
  Member member(world, options);
  member.join();
  member.next<Ready>();
  world.restart(nodes(1, 2), "the next master's");
  world.until([&] { return !member.rounds_lost.empty(); });
  CHECK_FALSE(member.gave_up);
}

TEST_CASE(
    "a node asks a master that was elected elsewhere for its secret, and tries no other there") {
  SealedWorld world(nodes(1, 2));
  const Network before(world);
  Endpoint master = before.endpoint();
  Client::Options options = munging(world, "member", opened);
  options.min_nodes = 1;
  options.locate = [&](const auto& located) {
    boost::asio::post(world.io, [&, located] { located(master); });
  };
  Member member(world, options);
  member.join();
  member.next<Ready>();
  master = world.endpoint();
  world.restart(nodes(1, 2), "the next master's");
  world.until([&] { return !member.rounds_lost.empty(); });
  CHECK_FALSE(world.logged("the two secrets differ"));
}
