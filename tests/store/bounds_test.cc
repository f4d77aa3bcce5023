// SPDX-License-Identifier: Apache-2.0
// Limits of a store's clients: memory, time, and turns of the event loop.
#include <list>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

#include "tests/catch.h"
#include "tests/store/bytes.h"
#include "tests/store/served.h"

using namespace ddprun;
using namespace ddprun::store;
using namespace ddprun::store::bytes;

namespace {

constexpr std::size_t kLarge = 8 << 20;

/// How many of `peers` the server has closed, once these are `most`, or the deadline has passed.
int closed_of(std::list<Peer>& peers, int most) {
  int closed = 0;
  for (int round = 0; round < 600 && closed < most; ++round) {
    std::vector<pollfd> all;
    for (Peer& peer : peers) all.push_back({peer.descriptor(), POLLIN, 0});
    closed = poll(all.data(), all.size(), 0);
    if (closed < most) poll(nullptr, 0, 100);
  }
  return closed;
}

/// Whether the server closes the connection of a peer that does not read.
bool was_cut_off(Peer& peer) {
  for (int round = 0; round < 600; ++round) {
    peer.send("x");  // to a closed socket: the answer is a reset
    pollfd end{peer.descriptor(), 0, 0};
    if (poll(&end, 1, 100) > 0) return true;
  }
  return false;
}

/// The beginning of a large request, whose rest never comes.
std::string unfinished() {
  return type(RequestType::set) + text("/k").substr(0, 10) + integer(kLarge) +
         std::string(400 << 10, 'x');
}

}  // namespace

TEST_CASE("large requests that do not end are bounded, and leave nothing behind") {
  Limits limits;
  limits.client_bytes = 4 << 20;
  Served served(limits);
  std::list<Peer> peers;
  for (int i = 0; i < 20; ++i) peers.emplace_back(served).send(unfinished());
  CHECK(closed_of(peers, 10) >= 10);  // 400 KiB each: at most ten are left
  Peer small(served);
  CHECK(alive(small));

  SECTION("when they are gone") {
    peers.clear();
  }
  SECTION("in the next round") {
    served.on_its_thread([](Server& server) { server.reset(); });
  }
  // The memory that the others held would leave too little for this.
  for (int i = 0; i < 3; ++i) {
    Peer large(served);
    const std::string value(1 << 20, 'v');
    CHECK(large.ask(set("/large", value) + get("/large"), value.size() + 8) == text(value));
  }
}

TEST_CASE("replies that nobody reads are bounded for all clients together") {
  Limits limits;
  limits.client_bytes = 32 << 20;
  Served served(limits);
  std::list<Peer> deaf;
  // Each holds a value of its own, which the next one replaces in the store.
  for (int i = 0; i < 12; ++i) {
    deaf.emplace_back(served).send(set("/k", std::string(kLarge, 'x')) + get("/k") + get("/k"));
    Peer good(served);
    REQUIRE(good.ask(wait({"/k"}), 1) == kStop);
  }
  Peer good(served);
  CHECK(alive(good));
  int whole = 0;
  for (Peer& peer : deaf) whole += peer.receive(2 * (kLarge + 8)).size() == 2 * (kLarge + 8);
  CHECK(whole < 12);
}

TEST_CASE("replies that are no longer read do not hold up other clients") {
  Limits limits;
  limits.client_bytes = 128 << 20;  // above a quarter, requests wait until all replies are read
  limits.busy_bytes = 32 << 20;
  limits.unread_time = std::chrono::milliseconds(1000);
  Served served(limits);
  std::list<Peer> deaf;
  for (int i = 0; i < 12; ++i) {
    deaf.emplace_back(served).send(set("/k", std::string(kLarge, 'x')) + get("/k"));
    REQUIRE(deaf.back().receive(1).size() == 1);
  }
  SECTION("when their clients were disconnected") {
    for (Peer& peer : deaf) REQUIRE(was_cut_off(peer));
  }
  SECTION("in the next round") {
    served.on_its_thread([](Server& server) { server.reset(); });
  }
  Peer slow(served), other(served);
  slow.send(set("/k", std::string(kLarge, 'x')) + get("/k") + set("/after", ""));
  CHECK(other.ask(wait({"/after"}), 1) == kStop);
}

TEST_CASE("a value in the store costs nothing more, however many clients read it late") {
  Limits limits;
  limits.client_bytes = 32 << 20;
  Served served(limits);
  Peer writer(served);
  writer.send(set("/k", std::string(kLarge, 'x')));
  wait_for_key(writer, "/k");
  std::list<Peer> late;
  for (int i = 0; i < 12; ++i) late.emplace_back(served).send(get("/k"));
  REQUIRE(alive(writer));
  for (Peer& peer : late) CHECK(peer.receive(kLarge + 8).size() == kLarge + 8);
}

TEST_CASE("a client that reads none of its replies is disconnected after a while") {
  Limits limits;
  limits.unread_time = std::chrono::milliseconds(400);
  Served served(limits);
  Peer writer(served);
  writer.send(set("/k", std::string(kLarge, 'x')));
  wait_for_key(writer, "/k");
  Peer deaf(served);
  for (int i = 0; i < 10; ++i) deaf.send(get("/k"));
  CHECK(was_cut_off(deaf));
  CHECK(alive(writer));
}

TEST_CASE("no turn of the event loop is longer than one piece of a long reply") {
  constexpr int kKeys = 10'000;
  Limits limits;
  limits.turn = std::chrono::milliseconds(0);
  limits.busy_bytes = 10'000;
  std::string requests = kHello, expected;
  for (int i = 0; i < kKeys; ++i) requests += set("/key/" + std::to_string(i), "");
  SECTION("keys") {
    requests += type(RequestType::list_keys);
    expected = integer(kKeys);
    for (int i = 0; i < kKeys; ++i) expected += text("/key/" + std::to_string(i));
  }
  SECTION("values") {
    requests += multi_get(std::vector<std::string>(kKeys, "/none"));
    for (int i = 0; i < kKeys; ++i) expected += text("");
  }
  SECTION("many requests") {
    for (int i = 0; i < kKeys; ++i) requests += key_count();
    for (int i = 0; i < kKeys; ++i) expected += integer(kKeys);
  }

  boost::asio::io_context io(1);
  Server server(io.get_executor(), limits);
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Fd mine(ends[0]);
  server.adopt(tcp::socket(io, tcp::v4(), ends[1]), requests);
  std::string received;
  std::vector<char> piece(1 << 20);
  while (received.size() < expected.size()) {
    const ssize_t size = recv(mine.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    REQUIRE(size <= 12'000);  // of one turn
    if (size > 0) received.append(piece.data(), static_cast<std::size_t>(size));
    if (received.size() < expected.size()) io.run_one();
  }
  CHECK(received == expected);
}

TEST_CASE("a new round has room for as many silent connections as the one before") {
  Limits limits;
  limits.silent_clients = 3;
  Served served(limits);
  std::list<Peer> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(served, "");
  Peer fourth(served, "");
  REQUIRE(fourth.closed());
  served.on_its_thread([](Server& server) { server.reset(); });
  std::list<Peer> again;
  for (int i = 0; i < 3; ++i) again.emplace_back(served, "");
  again.back().send(kHello);
  CHECK(alive(again.back()));
}

TEST_CASE("a store that was large is empty at once in the next round") {
  Served served;
  Peer old(served);
  std::string requests;
  for (int i = 0; i < 50'000; ++i) requests += set("/key/" + std::to_string(i), "");
  old.send(requests);
  wait_for_key(old, "/key/49999");
  served.on_its_thread([](Server& server) { server.reset(); });
  CHECK(old.closed());
  Peer fresh(served);
  CHECK(fresh.ask(set("/key/1", "") + key_count(), 8) == integer(1));
}
