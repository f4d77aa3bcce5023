// SPDX-License-Identifier: Apache-2.0
// Tests a job with a secret: which nodes it lets in, the reports, and attacks on the port.
#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <boost/asio/post.hpp>

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

/// The first bytes that an agent with this secret sends.
std::string hello_of(const std::shared_ptr<const Security>& security) {
  return SecureChannel(security, SecureChannel::Role::agent).take_output();
}

/// Lets this process have `most` files open while it lives.
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

TEST_CASE("only the name of a job with a secret can be read on the way") {
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

TEST_CASE("a forged refusal does not end a node that was a member once") {
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
  CHECK(world.answer_after(hello).empty());  // nothing is computed for a client that is gone
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

TEST_CASE("repeating a recorded hello takes the memory of 1,024 handshakes at most") {
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
