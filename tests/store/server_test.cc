// SPDX-License-Identifier: Apache-2.0
// The store over real sockets.
#include "store/server.h"

#include <algorithm>
#include <fstream>
#include <list>
#include <poll.h>
#include <sstream>
#include <string>
#include <sys/resource.h>

#include "tests/catch.h"
#include "tests/store/bytes.h"
#include "tests/store/served.h"
#include "tests/store/vectors.h"

using namespace ddprun;
using namespace ddprun::store;
using namespace ddprun::store::bytes;
using boost::asio::ip::tcp;

namespace {

void raise_descriptor_limit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

void replay(const std::vector<Exchange>& conversation) {
  {
    Served served;
    Peer peer(served, "");
    for (std::size_t i = 0; i < conversation.size(); ++i) {
      INFO("exchange " << i);
      const auto& [request, reply] = conversation[i];
      REQUIRE(peer.ask(request, reply.size()) == reply);
    }
  }
  {
    Served served;
    Peer peer(served, "");
    for (const auto& [request, reply] : conversation) {
      for (const char byte : request) peer.send({&byte, 1});
      REQUIRE(peer.receive(reply.size()) == reply);
    }
  }
  std::string requests, replies;
  for (const auto& [request, reply] : conversation) {
    requests += request;
    replies += reply;
  }
  Served served;
  Peer peer(served, requests);
  CHECK(peer.receive(replies.size()) == replies);
}

/// Hundredths of a second until each connection to `port` is probed, from /proc/net/tcp.
std::vector<long> times_to_probes(std::uint16_t port) {
  std::vector<long> times;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream words(line);
    std::string slot, local, remote, state, queues, timer;
    words >> slot >> local >> remote >> state >> queues >> timer;
    if (std::stol(local.substr(local.find(':') + 1), nullptr, 16) != port) continue;
    if (timer.starts_with("02:")) times.push_back(std::stol(timer.substr(3), nullptr, 16));
  }
  return times;
}

}  // namespace

TEST_CASE("clients that connect together are not probed together") {
  Served served;
  std::list<Peer> peers;
  for (int i = 0; i < 60; ++i) peers.emplace_back(served, "");
  Peer last_one(served);
  REQUIRE(alive(last_one));  // all are served now
  const std::vector<long> times = times_to_probes(served.port());
  REQUIRE(times.size() >= peers.size());
  const auto [first, last] = std::minmax_element(times.begin(), times.end());
  CHECK(*last - *first > 2'000);
}

TEST_CASE("recorded conversations work over sockets: whole, byte by byte, in one segment") {
  StoreVectors vectors;
  replay(current_conversation(vectors));
  replay(legacy_conversation(vectors));
}

TEST_CASE("both dialects share one port and one store") {
  Served served;
  Peer current(served);
  Peer legacy(served, std::string(1, '\0') + text("/k") + text("v"));
  wait_for_key(current, "/k");
  CHECK(current.ask(get("/k"), 9) == text("v"));
}

TEST_CASE("other protocols are closed at once") {
  Served served;
  for (const char* first : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-2.0-x\r\n", "\x16\x03\x01"}) {
    Peer stray(served, first);
    CHECK(stray.closed());
  }
  Peer good(served);
  CHECK(alive(good));
}

TEST_CASE("the bytes that identified the protocol are part of the conversation") {
  boost::asio::io_context io(1);
  Server server(io.get_executor());
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const Fd mine(ends[0]);
  server.adopt(tcp::socket(io, tcp::v4(), ends[1]), kHello + add("/c", 5));
  std::string reply(8, '\0');
  REQUIRE(recv(mine.get(), reply.data(), 8, MSG_WAITALL) == 8);
  CHECK(reply == integer(5));
}

TEST_CASE("a client is woken by another client") {
  Served served;
  Peer waiting(served);
  waiting.send(wait({"/k", "/l"}));
  Peer other(served);
  CHECK(other.ask(set("/k", "1") + set("/l", "2") + key_count(), 8) == integer(2));
  CHECK(waiting.receive(1) == kStop);
}

TEST_CASE("a thousand clients pass a barrier while pings are answered") {
  raise_descriptor_limit();
  Served served;
  std::list<Peer> peers;
  Peer ping(served);
  for (int i = 0; i < 1000; ++i) {
    peers.emplace_back(served).send(barrier("/b", 1000));
    if (i % 10 == 0) REQUIRE(alive(ping));
  }
  for (Peer& peer : peers) REQUIRE(peer.receive(1) == kStop);
  for (Peer& peer : peers) REQUIRE(alive(peer));
}

TEST_CASE("two thousand silent connections cost a working client nothing") {
  raise_descriptor_limit();
  Served served;
  std::list<Peer> silent;
  for (int i = 0; i < 2000; ++i) silent.emplace_back(served, "");
  Peer good(served);
  CHECK(alive(good));
  silent.back().send(kHello);
  CHECK(alive(silent.back()));
}

TEST_CASE("silent connections are bounded in number") {
  Limits limits;
  limits.silent_clients = 3;
  Served served(limits);
  std::list<Peer> silent;
  for (int i = 0; i < 3; ++i) silent.emplace_back(served, "");
  Peer fourth(served, "");
  CHECK(fourth.closed());
  silent.front().send(kHello);
  REQUIRE(alive(silent.front()));
  Peer fifth(served, "");
  fifth.send(kHello);
  CHECK(alive(fifth));
  silent.pop_back();
  Peer sixth(served);
  CHECK(alive(sixth));
}

TEST_CASE("a client that stops in the middle of a request does not block other clients") {
  Served served;
  Peer stalled(served, kHello + hex("01040000"));
  Peer good(served);
  CHECK(alive(good));
}

TEST_CASE("malformed requests end their own connection only") {
  Served served;
  Peer good(served);
  const std::string request =
      GENERATE(std::string("\x03") + std::string(8, '\xff'),
               std::string("\x06") + std::string(7, '\0') + '\x80', std::string("\x63"), kHello,
               set(std::string((8 << 10) + 1, 'k'), ""), set("/n", "abc") + add("/n", 1));
  Peer bad(served, kHello + request);
  CHECK(bad.closed());
  CHECK(alive(good));
}

TEST_CASE("keys and values up to their limits go through") {
  Served served;
  Peer peer(served);
  const std::string key(8 << 10, 'k');
  const std::string value(8 << 20, 'v');
  peer.send(set(key, value));
  CHECK(peer.ask(get(key), value.size() + 8) == text(value));
  peer.send(set("/k", value + 'v'));
  CHECK(peer.closed());
}

TEST_CASE("requests that wait for another turn are kept unchanged") {
  Limits limits;
  limits.turn = std::chrono::milliseconds(0);
  Served served(limits);
  Peer adder(served), other(served);
  REQUIRE((alive(adder) && alive(other)));
  std::string sums, requests;
  for (int i = 1; i <= 1000; ++i) {
    requests += add("/sum", 1);
    sums += integer(i);
  }
  served.on_its_thread([&](Server&) {  // the server finds both at once
    adder.send(requests);
    other.send(set("/large", std::string(8'000, 'x')));
  });
  CHECK(adder.receive(sums.size()) == sums);
  CHECK(alive(other));
}

TEST_CASE("a client that never reads is served no further, but others are") {
  Served served;
  Peer good(served);
  good.send(set("/large", std::string(8 << 20, 'x')));
  REQUIRE(alive(good));
  Peer deaf(served);
  for (int i = 0; i < 100; ++i) deaf.send(get("/large"));
  deaf.send(set("/after", ""));
  CHECK(good.ask(check({"/large", "/after"}), 1) == kNo);
  CHECK(alive(good));

  SECTION("until it reads again") {
    for (int i = 0; i < 100; ++i) REQUIRE(deaf.receive(8 + (8 << 20)).size() == 8 + (8 << 20));
    wait_for_key(good, "/after");
  }
  SECTION("and then it may vanish") {
    deaf.break_off();
    CHECK(alive(good));
  }
}

TEST_CASE("clients that vanish while they wait do not harm others") {
  Served served;
  Peer good(served);
  for (int i = 0; i < 50; ++i) {
    Peer waiting(served, kHello + add("/here", 1) + wait({"/k"}));
    REQUIRE(waiting.receive(8).size() == 8);
    i % 2 ? waiting.hang_up() : waiting.break_off();
  }
  Peer still(served, kHello + wait({"/k"}));
  good.send(set("/k", ""));
  CHECK(still.receive(1) == kStop);
  // Newcomers may get the descriptors of clients that left: they must not get the others' replies.
  for (int i = 0; i < 50; ++i) {
    Peer newcomer(served);
    REQUIRE(newcomer.ask(key_count(), 8) == integer(2));
  }
}

TEST_CASE("a request that a client sent before it hung up still counts") {
  Served served;
  Peer good(served);
  Peer brief(served, kHello + set("/last", "word"));
  brief.hang_up();
  wait_for_key(good, "/last");
}

TEST_CASE("a new round finds an empty store and no old client") {
  Served served;
  Peer old(served);
  Peer silent(served, "");
  CHECK(old.ask(set("/k", "v") + add("init/", 1) + wait({"/k"}), 9) == integer(1) + kStop);
  old.send(wait({"/later"}));
  REQUIRE(alive(old));

  served.on_its_thread([](Server& server) { server.reset(); });
  CHECK(old.closed());
  CHECK(silent.closed());
  Peer fresh(served);
  CHECK(fresh.ask(add("init/", 1), 8) == integer(1));
  CHECK(fresh.ask(set("/later", "") + key_count(), 8) == integer(2));
}

TEST_CASE("a client that would miss news of its watched keys is disconnected") {
  Limits limits;
  limits.unread_bytes = 1000;
  Served served(limits);
  Peer watching(served, "");  // an old client: newer clients cannot watch
  REQUIRE(watching.ask(hex("0702000000000000002f77"), 1) == hex("03"));
  Peer other(served);
  other.send(set("/w", std::string(2000, 'x')));
  CHECK(watching.closed());
  CHECK(alive(other));
}

TEST_CASE("a client that fills the store is named in a warning") {
  Limits limits;
  limits.store_bytes = 1000;
  Served served(limits);
  std::string lines;
  served.on_its_thread([&](Server&) {
    log::set_level(log::Level::info);
    log::set_writer([&](std::string_view line) { lines += line; });
  });
  Peer stray(served, "GET /");
  CHECK(stray.closed());
  Peer greedy(served, kHello + set("/k", std::string(2000, 'x')));
  CHECK(greedy.closed());
  served.on_its_thread([&](Server&) { log::set_writer({}); });
  CHECK(lines.find("127.0.0.1") != std::string::npos);
  CHECK(lines.find("the store is full") != std::string::npos);
  CHECK(lines.find("type 71") == std::string::npos);  // strays are not worth a warning
}

TEST_CASE("a busy client whose outbox is flushed by awaited news is served further") {
  // One send must take all that is left: what the kernel holds, as measured, and a quarter more.
  const auto conversation = [](std::size_t value, std::size_t times, bool notified) {
    Limits limits;
    limits.busy_bytes = 1024;
    Served served(limits);
    Peer other(served);
    other.send(set("/large", std::string(value, 'x')));
    REQUIRE(alive(other));
    Peer peer(served);
    peer.send(wait({"ddprun/alarm/0"}) + multi_get(std::vector<std::string>(times, "/large")) +
              type(RequestType::ping) + "abcd");
    REQUIRE(alive(other));
    pollfd reply{peer.descriptor(), POLLIN, 0};
    REQUIRE(poll(&reply, 1, 60'000) == 1);
    std::string got;
    served.on_its_thread([&](Server& server) {
      std::array<char, 65'536> piece;
      for (;;) {
        const ssize_t size = recv(peer.descriptor(), piece.data(), piece.size(), MSG_DONTWAIT);
        if (size <= 0) break;
        got.append(piece.data(), static_cast<std::size_t>(size));
      }
      if (notified) server.notify_failure("rank 1 failed");
    });
    const std::size_t held = got.size();
    const std::size_t whole = 8 + value + (notified ? 1 : 0) + 4;
    if (notified) got += peer.receive(whole - held);
    // If the kernel holds more than was measured, it took all before the news.
    const std::string large = text(std::string(value, 'x'));
    CHECK((!notified || got == large + kStop + "abcd" || got == large + "abcd" + kStop));
    return held;
  };
  const std::size_t held = conversation(8 << 20, 4, false);
  conversation(held + held / 4, 1, true);
}
