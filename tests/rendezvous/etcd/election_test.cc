// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/election.h"

#include "tests/catch.h"
#include "tests/rendezvous/etcd/etcd_model.h"

namespace ddprun::rendezvous::etcd {
namespace {

using namespace std::chrono_literals;

/// A master and its etcd, which answers each request at once or never.
struct Master {
  Election election{4s};
  EtcdModel etcd;
  Election::Time now = Election::Time() + 1h;
  bool loses_writes = false;    // they are done, but the answer is lost
  bool fails_renewals = false;  // of the key
  int done = 0;
  std::vector<std::string> stepped_down, delayed;

  Master() { perform(election.look(now)); }

  void record(const std::string& state) { perform(election.record(state, now)); }

  void pass(std::chrono::seconds time) {
    for (const Election::Time end = now + time; now < end;) {
      now += 1s;
      etcd.expire(now, [] { return true; });
      perform(election.tick(now));
    }
  }

  void perform(const ElectionActions& actions) {
    for (const ElectionAction& action : actions) {
      if (std::holds_alternative<election_action::Done>(action)) ++done;
      if (const auto* step = std::get_if<election_action::StepDown>(&action)) {
        stepped_down.push_back(step->reason);
      }
      if (const auto* delay = std::get_if<election_action::Delayed>(&action)) {
        delayed.push_back(delay->reason);
      }
      if (const auto* ask = std::get_if<election_action::Ask>(&action)) answer(*ask);
    }
  }

  void answer(const election_action::Ask& ask) {
    const auto answer = etcd.apply(ask.request, "master", now);
    const bool is_lost = loses_writes && std::holds_alternative<request::Record>(ask.request);
    const bool fails = fails_renewals && std::holds_alternative<request::Renew>(ask.request);
    if (is_lost || fails || !answer) return perform(election.failed(ask.number, "no answer", now));
    perform(election.answered(ask.number, *answer, now));
  }
};

TEST_CASE("a write whose answer was lost counts when it is repeated") {
  Master master;
  master.loses_writes = true;
  master.record("1");
  CHECK(master.done == 0);
  CHECK(master.delayed == std::vector<std::string>{"no answer"});
  master.pass(5s);
  CHECK(master.delayed.size() == 1);  // reported once
  master.loses_writes = false;
  master.pass(300s);
  CHECK(master.done == 1);
  REQUIRE(master.etcd.state);
  master.record("2");
  CHECK(master.done == 2);
  CHECK(master.stepped_down.empty());
}

TEST_CASE("a master whose renewals fail for a moment stays the master") {
  Master master;
  master.fails_renewals = true;
  master.pass(3s);
  master.fails_renewals = false;
  master.pass(60s);
  CHECK(master.stepped_down.empty());
}

TEST_CASE("a master whose state has vanished writes it again") {
  Master master;
  master.record("1");
  REQUIRE(master.etcd.state);
  master.etcd.apply(request::Revoke{master.etcd.state->lease}, "", master.now);
  REQUIRE_FALSE(master.etcd.state);
  master.record("2");
  CHECK(master.done == 2);
  CHECK(master.stepped_down.empty());
  CHECK(master.etcd.state->state == "2");
}

TEST_CASE("a master whose state was replaced by an older one writes its own again") {
  Master master;
  master.record("1");
  const auto older = master.etcd.state;
  master.record("2");
  master.etcd.state = older;  // as when etcd is restored from an earlier snapshot
  master.record("3");
  CHECK(master.done == 3);
  CHECK(master.stepped_down.empty());
  CHECK(master.etcd.state->state == "3");
}

TEST_CASE("a master whose key was deleted steps down at the next renewal, though its lease lasts") {
  Master master;
  master.pass(2s);
  master.etcd.master.reset();
  master.pass(2s);
  CHECK(master.stepped_down == std::vector<std::string>{"its key in etcd was deleted"});
}

TEST_CASE("a key lives for three leases of nodes, and is renewed ten times in it") {
  CHECK(Election(10s).ttl() == 30s);
  CHECK(Election(10s).pause() == 3s);
  CHECK(Election(2s).pause() == 600ms);
  CHECK(Election(1'100ms).ttl() == 4s);
  CHECK(Election(100ms).ttl() == 2s);
}

}  // namespace
}  // namespace ddprun::rendezvous::etcd
