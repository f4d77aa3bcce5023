// SPDX-License-Identifier: Apache-2.0
// A job with a secret: who is let in, what each side says, and what attackers on the port get.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <boost/asio/post.hpp>

#include "rendezvous/secure_channel.h"
#include "rendezvous/server.h"
#include "rendezvous/tls_record.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/rendezvous/network.h"
#include "tests/rendezvous/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using ddprun::tests::contains;

namespace {

std::shared_ptr<const Security> security_of(const std::string& secret,
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

/// Why a member that joins gives up.
std::string reason_for(SecretWorld& world, const Client::Options& options) {
  Member member(world, options);
  member.join();
  world.until([&] { return member.gave_up.has_value(); });
  CHECK(member.gave_up->code == Errc::usage);
  CHECK(member.welcomes.empty());
  return member.gave_up->message;
}

std::string begin_of(const World& world) {
  return world.endpoint().text() + " refused this node: ";
}

/// Those of a node that opens what the master hands out as `opened`.
Client::Options munging(const SecretWorld& world, const std::string& name,
                        KeyRequest::Open open_secret) {
  Client::Options options = world.options(name, security_of("of this node alone"));
  options.open_secret = std::move(open_secret);
  return options;
}

/// As munge would, if "sealed X" were X sealed.
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

/// The first bytes that an agent with this secret sends.
std::string hello_of(const std::shared_ptr<const Security>& security) {
  return SecureChannel(security, SecureChannel::Role::agent).take_output();
}

/// While it lives this process may have `most` files open.
class OpenFiles {
 public:
  explicit OpenFiles(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = most;
    allowed_ = setrlimit(RLIMIT_NOFILE, &limit) == 0;
  }
  OpenFiles(const OpenFiles&) = delete;
  ~OpenFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

  bool allowed() const { return allowed_; }

 private:
  rlimit before_{};
  bool allowed_ = false;
};

}  // namespace

TEST_CASE("the nodes of a job with a secret find each other") {
  SecretWorld world(nodes(2, 2));
  Member first(world, world.options("first", world.security));
  Member second(world, world.options("second", world.security));
  first.join();
  second.join();
  CHECK(first.next<Ready>().layout.node_count == 2);
  CHECK(second.next<Ready>().layout.node_count == 2);
  first.fail(0);
  first.next<Broken>();
  CHECK(second.next<Broken>().root_cause.has_value());
}

TEST_CASE("nothing of a job with a secret can be read on the way, but its name") {
  SecretWorld world(nodes(1, 1));
  ListenSocket between(world);
  Client::Options options = world.options("confidential-host", world.security);
  options.server = between.endpoint();
  Member member(world, options);
  member.join();
  const auto peer = between.next();
  world.until([&] { return first_record_size(peer->received) == peer->received.size(); });
  CHECK(contains(peer->received, "ddprun1/job"));
  CHECK_FALSE(contains(peer->received, "confidential"));
}

TEST_CASE("a node with another secret is refused on both sides") {
  SecretWorld world(nodes(2, 2));
  const std::string reason = reason_for(world, world.options("stray", security_of("another")));
  CHECK(contains(reason, begin_of(world) + "the two secrets differ"));
  CHECK(world.logged("refused a node at 127.0.0.1: the two secrets differ"));
}

TEST_CASE("a node with the secret of another job is refused on both sides, neither job is named") {
  SecretWorld world(nodes(2, 2), security_of("our secret", "hidden"));
  const std::string reason = reason_for(world, world.options("stray", security_of("our secret")));
  CHECK(contains(reason, begin_of(world) + "it serves another job"));
  CHECK_FALSE(contains(reason, "hidden"));
  CHECK(world.logged("refused a node at 127.0.0.1: it belongs to another job"));
}

TEST_CASE("a node without a secret is refused on both sides, and does not learn the job's id") {
  SecretWorld world(nodes(2, 2));
  Member member(world, world.options("stray", nullptr));
  member.join();
  const std::string sentence = member.next<Refused>().sentence;
  CHECK(contains(sentence, "it admits only nodes with its secret"));
  CHECK_FALSE(contains(sentence, "job"));
  CHECK(world.logged("refused a node at 127.0.0.1: it admits only nodes with its secret"));
}

TEST_CASE("a node with a secret is refused by a master without one, and both sides say so") {
  SecretWorld world(nodes(2, 2), nullptr);
  const std::string reason = reason_for(world, world.options("stray", security_of("our secret")));
  CHECK(contains(reason, begin_of(world) + "it has no secret, and this node has one"));
  CHECK(world.logged("refused a node at 127.0.0.1: it has a secret, and this master has none"));
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

TEST_CASE("what was sealed by someone else, or for another job, opens no line") {
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

TEST_CASE("who asks for the sealed secret can do nothing else on that connection") {
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

TEST_CASE("what answers the request for the sealed secret otherwise is no master") {
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

TEST_CASE("a node that was a member once is not ended by someone who forges a refusal") {
  SecretWorld world(nodes(1, 2));
  Network network(world);
  Client::Options options = world.options("member", world.security);
  options.min_nodes = 1;
  options.server = network.endpoint();
  Member member(world, options);
  member.join();
  member.next<Ready>();

  const auto ours = std::exchange(world.security, security_of("of another master"));
  world.server.reset();
  world.start_server(nodes(1, 2));
  network.reset();
  world.until([&] { return world.logged("the two secrets differ"); });
  CHECK_FALSE(member.gave_up);

  world.security = ours;
  world.server.reset();
  world.start_server(nodes(1, 2));
  world.until([&] { return !member.rounds_lost.empty(); });
  CHECK_FALSE(member.gave_up);
}

TEST_CASE("clients of the store still share the port of a job with a secret") {
  SecretWorld world(nodes(1, 1));
  Peer client(world);
  client.send(std::string("\x00\xce\xf7\x85\x3c\x0d\x00\x00\x00\x2a", 10).substr(0, 5));
  Member member(world, [&] {
    Client::Options options = world.options("member", world.security);
    options.min_nodes = options.max_nodes = 1;
    return options;
  }());
  member.join();
  member.next<Ready>();
  CHECK(client.received.empty());
}

TEST_CASE("attackers get nothing from the port of a job with a secret, and its nodes are let in") {
  SecretWorld world(nodes(1, 1));
  const std::string hello = hello_of(world.security);

  // Bytes that do not begin as TLS does.
  CHECK(world.answer_after("\x16").empty());
  CHECK(world.answer_after(std::string("\x16\x02\x01\x00\x05", 5)).empty());
  // Garbage after the beginning: OpenSSL's alert at most, and no name.
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x00\x05hello", 10), "\x16\x03\x01" + std::string(2000, '\xff'),
        hello.substr(0, 5) + std::string(hello.size(), 'x')}) {
    CHECK(world.answer_to(garbage).size() <= 7);
  }
  // A hello that is cut, changed anywhere, or repeated.
  CHECK(world.answer_after(hello.substr(0, hello.size() / 2)).empty());
  for (size_t at = 5; at < hello.size(); at += 7) {
    std::string changed = hello;
    changed[at] ^= 0x55;
    CHECK(world.answer_to(changed).size() <= 7);
  }
  CHECK(world.answer_after(std::string("\x16\x03\x01\x00\x00", 5)).empty());
  CHECK(world.answer_after(hello).empty());           // nothing is computed for who is gone
  const std::string answer = world.answer_to(hello);  // the same to all: nothing of the job
  CHECK_FALSE(answer.empty());
  CHECK_FALSE(contains(answer, "job"));
  CHECK_FALSE(contains(world.answer_to(hello + hello), "job"));
  bool runs = false;
  world.server->when_round_changes([&](bool now) { runs = now; });
  // Requests without encryption, behind the greeting and without it.
  CHECK_FALSE(
      contains(world.answer_to(greeting() + encode(message::Hello{"job", 1, 1, "x", "s", 0}) +
                               encode(message::Leave{})),
               "welcome"));
  CHECK_FALSE(runs);

  Client::Options options = world.options("member", world.security);
  options.min_nodes = options.max_nodes = 1;
  Member member(world, options);
  member.join();
  member.next<Ready>();
}

TEST_CASE("someone who repeats a recorded hello takes the memory of 1,024 handshakes at most") {
  const OpenFiles open_files(6'000);
  if (!open_files.allowed()) return;  // this host allows fewer
  SecretWorld world(nodes(1, 1));
  const std::string hello = hello_of(world.security);
  std::vector<std::unique_ptr<Peer>> strangers;
  while (strangers.size() < 1'030) {
    strangers.push_back(std::make_unique<Peer>(world));
    strangers.back()->send(hello);
    world.until([&] { return !strangers.back()->received.empty(); });
  }
  world.until([&] { return strangers.front()->closed; });
  CHECK_FALSE(strangers.back()->closed);

  Client::Options options = world.options("member", world.security);
  options.min_nodes = options.max_nodes = 1;
  Member member(world, options);
  member.join();
  member.next<Ready>();
}
