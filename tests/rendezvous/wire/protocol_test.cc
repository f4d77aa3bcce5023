// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/protocol.h"

#include <limits>

#include "tests/catch.h"
#include "tests/must.h"
#include "tests/rendezvous/wire/protocol_samples.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using std::chrono::milliseconds;

namespace {

template <class T>
T sent_and_received(const Message& message) {
  const Message received = must(decode_message(body_of(encode(message))));
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

template <class T>
T answered(const Reply& reply) {
  const Reply received = must(decode_reply(body_of(encode(reply))));
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

template <class T>
T delivered(const Notification& notification) {
  const auto received = answered<Notification>(notification);
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

void check_same(const Failure& a, const Failure& b) {
  CHECK(a.rank == b.rank);
  CHECK(a.wait_status == b.wait_status);
  CHECK(a.pid == b.pid);
  CHECK(a.seconds == b.seconds);
  CHECK(a.host == b.host);
  CHECK(a.cause == b.cause);
  CHECK(a.stderr_tail == b.stderr_tail);
  CHECK(a.exception == b.exception);
  CHECK(a.traceback == b.traceback);
  CHECK(a.hung == b.hung);
  CHECK(a.log_folder == b.log_folder);
}

void check_same(const WorkerExits& a, const WorkerExits& b) {
  REQUIRE(a.failed.size() == b.failed.size());
  for (size_t i = 0; i < a.failed.size(); ++i) {
    CHECK(a.failed[i].rank == b.failed[i].rank);
    CHECK(a.failed[i].how == b.failed[i].how);
    CHECK(a.failed[i].consequence == b.failed[i].consequence);
    CHECK(a.failed[i].lost_peer == b.failed[i].lost_peer);
  }
  REQUIRE(a.calls.size() == b.calls.size());
  for (size_t i = 0; i < a.calls.size(); ++i) {
    CHECK(a.calls[i].group == b.calls[i].group);
    CHECK(a.calls[i].begun == b.calls[i].begun);
    CHECK(a.calls[i].open == b.calls[i].open);
    CHECK(a.calls[i].shown == b.calls[i].shown);
    CHECK(a.calls[i].ranks == b.calls[i].ranks);
    CHECK(a.calls[i].recent == b.calls[i].recent);
    CHECK(a.calls[i].failed == b.calls[i].failed);
    CHECK(a.calls[i].release == b.calls[i].release);
  }
  REQUIRE(a.places.size() == b.places.size());
  for (size_t i = 0; i < a.places.size(); ++i) {
    CHECK(a.places[i].ranks == b.places[i].ranks);
    CHECK(a.places[i].kind == b.places[i].kind);
    CHECK(a.places[i].what == b.places[i].what);
    CHECK(a.places[i].seconds == b.places[i].seconds);
  }
  CHECK(a.stopped == b.stopped);
  CHECK(a.killed == b.killed);
  CHECK(a.signal == b.signal);
  CHECK(a.seconds == b.seconds);
}

/// A text of `size` bytes, each of which takes six in JSON.
std::string nasty(size_t size) {
  return std::string(size, '\x01');
}

Failure nasty_failure() {
  Failure failure = sample_failure();
  failure.stderr_tail = nasty(100'000) + "\xff\xfe the end";
  failure.cause = nasty(100'000);
  failure.exception = nasty(100'000);
  failure.traceback = nasty(100'000) + "raise";
  failure.host = nasty(100'000);
  return failure;
}

}  // namespace

TEST_CASE("a message of an agent is decoded as it was encoded") {
  const auto hello = sent_and_received<message::Hello>(sample_hello());
  CHECK(hello.run_id == "job42");
  CHECK(hello.min_nodes == 2);
  CHECK(hello.max_nodes == 4);
  CHECK(hello.host == "gpu-07");
  CHECK(hello.session == "0123abcd");
  CHECK(hello.received == 17);
  CHECK(hello.addresses == sample_hello().addresses);

  const auto fail = sent_and_received<message::Fail>(message::Fail{5, sample_failure()});
  CHECK(fail.round == 5);
  check_same(fail.failure, sample_failure());

  Failure hang;
  hang.wait_status = 124 << 8;
  hang.hung = true;
  check_same(sent_and_received<message::Fail>(message::Fail{5, hang}).failure, hang);

  CHECK(sent_and_received<Heartbeat>(Heartbeat{1ULL << 53}).received == 1ULL << 53);
  CHECK(sent_and_received<message::Succeed>(message::Succeed{6}).round == 6);
  CHECK(sent_and_received<message::Leave>(message::Leave{"SIGTERM"}).signal == "SIGTERM");
  const WorkerExits sample = sample_request().worker_exits;
  const auto progress = sent_and_received<message::Progress>(
      message::Progress{{4, true, 612.5, sample.places, sample.calls}});
  CHECK(progress.progress.round == 4);
  CHECK(progress.progress.quiet);
  CHECK(progress.progress.seconds == 612.5);
  WorkerExits arrived;
  arrived.places = progress.progress.places;
  arrived.calls = progress.progress.calls;
  WorkerExits sent;
  sent.places = sample.places;
  sent.calls = sample.calls;
  check_same(arrived, sent);
  const auto gone = sent_and_received<message::Gone>(message::Gone{"0123abcd", "its agent ended"});
  CHECK(gone.session == "0123abcd");
  CHECK(gone.how == "its agent ended");
  sent_and_received<message::Ask>(message::Ask{});
  const auto owned = sent_and_received<message::Owned>(message::Owned{{true, false, true}});
  CHECK(owned.ours == std::vector<bool>{true, false, true});
  sent_and_received<message::GetSecret>(message::GetSecret{});
}

TEST_CASE("a request to join arrives with all that the node knows of earlier rounds") {
  JoinRequest request = sample_request();
  const auto join = sent_and_received<message::Join>(message::Join{request}).request;
  CHECK(join.local_size == 8);
  CHECK(join.node_rank == 3);
  CHECK(join.host == "gpu-07");
  CHECK(join.is_host);
  CHECK(join.hosting);
  CHECK(join.store_port == 41237);
  CHECK(join.cannot_run == "cannot run ./train");
  CHECK(join.command == "./train --lr 1");
  CHECK(join.command_hash == 1ULL << 52);
  CHECK(join.role == "trainer");
  CHECK(join.last_round == 4);
  CHECK(join.last_master == "9876fedc");
  CHECK(join.last_node_rank == 2);
  CHECK(join.last_guests == 6);
  CHECK(join.last_hosted);
  CHECK(join.last_restarts == 1);
  CHECK(join.restarts == 2);
  check_same(join.unreported_failure.value(), sample_failure());
  check_same(join.worker_exits, request.worker_exits);

  const auto first = sent_and_received<message::Join>(message::Join{JoinRequest()}).request;
  CHECK_FALSE(first.node_rank.has_value());
  CHECK_FALSE(first.hosting);
  CHECK(first.last_round == -1);
  CHECK(first.last_node_rank == -1);
  CHECK_FALSE(first.unreported_failure.has_value());
  check_same(first.worker_exits, WorkerExits());
}

TEST_CASE("a reply of the master is decoded as it was encoded") {
  const auto welcome = answered<reply::Welcome>(sample_welcome());
  CHECK(welcome.master == "9876fedc");
  CHECK(welcome.resumed);
  CHECK(welcome.received == 23);
  CHECK(welcome.heartbeat == milliseconds(2'000));
  CHECK(welcome.lease == milliseconds(10'000));
  CHECK(welcome.max_restarts == 3);
  CHECK(welcome.hang_timeout == milliseconds(600'000));

  CHECK(answered<Heartbeat>(Heartbeat{12}).received == 12);
  CHECK(answered<reply::Waiting>(reply::Waiting{"1 of 2 nodes"}).sentence == "1 of 2 nodes");
  const std::vector<SocketEnds> connections = {{"10.0.0.2", 65'535, "10.0.0.1", 29'500},
                                               {"fd09::2", 40'000, "fd09::1", 29'500}};
  CHECK(answered<reply::Whose>(reply::Whose{connections}).connections == connections);
  CHECK(answered<reply::SealedSecret>(reply::SealedSecret{"MUNGE:AwQD:"}).credential ==
        "MUNGE:AwQD:");
}

TEST_CASE("a sealed secret is no longer than munge makes one") {
  const std::string longest(kMaxCredential, 'x');
  CHECK(answered<reply::SealedSecret>(reply::SealedSecret{longest}).credential == longest);
  const std::string body = body_of(encode(Reply(reply::SealedSecret{longest + 'x'})));
  CHECK(decode_reply(body).error().code == Errc::protocol);
}

TEST_CASE("notifications arrive as they were written") {
  CHECK(delivered<Stalled>(Stalled{"no rank\nrank 1"}).text == "no rank\nrank 1");
  const Layout arrived = delivered<Ready>(Ready{sample_layout()}).layout;
  CHECK(arrived.round == 2);
  CHECK(arrived.restarts == 1);
  CHECK(arrived.node_rank == 1);
  CHECK(arrived.node_count == 3);
  CHECK(arrived.first_rank == 8);
  CHECK(arrived.local_size == 4);
  CHECK(arrived.world_size == 20);
  CHECK(arrived.guests == 2);
  CHECK(arrived.role.value().first_rank == 3);
  CHECK(arrived.role.value().world_size == 9);
  CHECK(arrived.store_port == 41237);
  CHECK(arrived.store_host == "10.0.0.7");
  CHECK_FALSE(delivered<Ready>(Ready{Layout()}).layout.role.has_value());

  const auto broken = delivered<Broken>(Broken{"rank 7 failed", sample_failure(), 2, true});
  CHECK(broken.reason == "rank 7 failed");
  CHECK(broken.restarts == 2);
  CHECK(broken.ends_job);
  check_same(broken.root_cause.value(), sample_failure());
  const auto membership = delivered<Broken>(Broken{"a node left", {}, 0, false});
  CHECK_FALSE(membership.root_cause.has_value());
  CHECK_FALSE(membership.ends_job);

  CHECK(delivered<Refused>(Refused{"taken"}).sentence == "taken");
  CHECK_FALSE(delivered<Refused>(Refused{"taken"}).left_out);
  CHECK(delivered<Refused>(Refused{"taken", true}).left_out);
  CHECK_FALSE(delivered<Refused>(Refused{"taken", true}).is_stranger);
  CHECK(delivered<Refused>(Refused{"other job", false, true}).is_stranger);
}

TEST_CASE("the end of the job arrives as it was written, with the other workers' ends") {
  CHECK(std::holds_alternative<Succeeded>(delivered<Closed>(Closed{Succeeded{}}).ending));

  const Failed sent = {sample_failure(), 3, "ranks 0-6 were stopped\nrank 9 failed", "no restart",
                       "rank 1 (gpu-02) is the likely cause"};
  const auto failed = std::get<Failed>(delivered<Closed>(Closed{sent}).ending);
  check_same(failed.root_cause, sample_failure());
  CHECK(failed.round == 3);
  CHECK(failed.summary == sent.summary);
  CHECK(failed.no_restart == "no restart");
  CHECK(failed.suspect == sent.suspect);

  const auto timed_out = delivered<Closed>(Closed{TimedOut{"node 1 is missing"}});
  CHECK(std::get<TimedOut>(timed_out.ending).sentence == "node 1 is missing");
}

TEST_CASE("a stderr tail of any bytes and any length fits into a frame") {
  const Failure failure = nasty_failure();
  const auto fail = sent_and_received<message::Fail>(message::Fail{0, failure});
  CHECK(fail.failure.stderr_tail.ends_with(" the end"));

  const Failed sent = {failure, 0, nasty(100'000) + "the others", nasty(100'000) + "why"};
  const auto failed = std::get<Failed>(delivered<Closed>(Closed{sent}).ending);
  CHECK(failed.root_cause.stderr_tail.ends_with(" the end"));
  CHECK(failed.root_cause.traceback.ends_with("raise"));
  CHECK(failed.summary.ends_with("the others"));
  CHECK(failed.no_restart.ends_with("why"));

  const auto broken = delivered<Broken>(Broken{nasty(100'000) + "reason", failure, 0, true});
  CHECK(broken.reason.ends_with("reason"));
}

TEST_CASE("a node that stopped a hundred thousand workers reports the first of them") {
  JoinRequest request;
  request.host = nasty(100'000);
  request.unreported_failure = nasty_failure();
  request.cannot_run = request.command = nasty(100'000);
  WorkerExits& worker_exits = request.worker_exits;
  const int last = std::numeric_limits<int>::max();
  for (int i = 0; i < 100'000; ++i) {
    worker_exits.failed.push_back({last - i, nasty(1'000)});
    worker_exits.stopped.push_back(last - i);
    worker_exits.killed.push_back(last - i);
    worker_exits.places.push_back({{last - i}, WorkerPlace::Kind::waiting, nasty(1'000), 1e9});
  }
  worker_exits.signal = nasty(100'000);
  worker_exits.seconds = 1e9;
  const auto arrived =
      sent_and_received<message::Join>(message::Join{request}).request.worker_exits;
  REQUIRE(arrived.failed.size() > 100);
  CHECK(arrived.failed.size() < worker_exits.failed.size());
  CHECK(arrived.failed.front().rank == last);
  CHECK(arrived.failed.front().how.size() > 32);
  REQUIRE(arrived.stopped.size() > 1'000);
  CHECK(arrived.stopped.size() < worker_exits.stopped.size());
  CHECK(arrived.places.empty());  // a part of them could accuse the wrong rank
  CHECK(arrived.stopped.front() == last);
  CHECK(arrived.killed.front() == last);
  CHECK(arrived.seconds == 1e9);
}
