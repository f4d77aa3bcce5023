// SPDX-License-Identifier: Apache-2.0
#include "agent/mpi/mpi_exchange.h"

#include <chrono>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "store/server.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::agent;

namespace {

using boost::asio::ip::tcp;

/// The round's store, on a thread.
class RoundStore {
 public:
  RoundStore() {
    accept();
    thread_ = std::thread([this] { context_.run(); });
  }
  ~RoundStore() {
    context_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }

 private:
  void accept() {
    acceptor_.async_accept([this](boost::system::error_code failure, tcp::socket socket) {
      if (!failure) server_.adopt(std::move(socket), {});
      accept();
    });
  }

  boost::asio::io_context context_{1};
  tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
  store::Server server_{context_.get_executor()};
  std::thread thread_;
};

MpiExchange exchange_of(int node, const RoundStore& store) {
  return {{"127.0.0.1", store.port()}, node, "all", {0, 1, 2}};
}

}  // namespace

TEST_CASE("every node of MPI gets what all have given, in each exchange") {
  RoundStore store;
  std::vector<std::future<std::string>> nodes;
  for (int node = 0; node < 3; ++node) {
    nodes.push_back(std::async(std::launch::async, [&store, node] {
      MpiExchange exchange = exchange_of(node, store);
      std::string all;
      for (const char* number : {"a", "b"}) {
        must(exchange.begin(number + std::to_string(node) + ' '));
        all += *must(exchange.end(60s)) + '|';
      }
      return all;
    }));
  }
  for (auto& node : nodes) {
    const std::string all = node.get();
    CHECK(all.size() == 20);
    for (const char* given : {"a0 ", "a1 ", "a2 "}) CHECK(all.find(given) < all.find('|'));
    for (const char* given : {"b0 ", "b1 ", "b2 "}) CHECK(all.find(given) != all.npos);
  }
}

TEST_CASE("some nodes of MPI may exchange data beside all") {
  RoundStore store;
  const rendezvous::Endpoint place{"127.0.0.1", store.port()};
  MpiExchange all = exchange_of(0, store);
  must(all.begin("x"));
  MpiExchange zero(place, 0, "0-2", {0, 2}), two(place, 2, "0-2", {0, 2});
  must(two.begin("b"));
  CHECK(must(two.missing()) == std::vector{0});
  must(zero.begin("a"));
  CHECK(must(zero.end(60s)) == std::string("ba"));
  CHECK_FALSE(must(all.end(1ms)));
}

TEST_CASE("nodes that an exchange of MPI waits for are known, and which of their ranks") {
  RoundStore store;
  MpiExchange first = exchange_of(0, store), last = exchange_of(2, store);
  must(first.begin("x"));
  CHECK_FALSE(must(first.end(1ms)));
  CHECK(must(first.missing()) == std::vector{1, 2});
  CHECK(must(first.uncalled_of({1, 2})).empty());
  must(last.publish_uncalled("4-7"));
  CHECK(must(first.uncalled_of({1, 2})) == "4-7");
  must(last.begin("y"));
  CHECK(must(first.missing()) == std::vector{1});
  must(exchange_of(1, store).begin("z"));
  CHECK(must(first.end(60s)) == std::string("xyz"));
}

TEST_CASE("each exchange of MPI has a number of its own, the same on all of its nodes") {
  RoundStore store;
  const rendezvous::Endpoint place{"127.0.0.1", store.port()};
  MpiExchange zero(place, 0, "a", {0, 2}), two(place, 2, "a", {0, 2});
  std::set<std::int64_t> numbers;
  for (int i = 0; i < 2; ++i) {
    must(zero.begin("x"));
    must(two.begin("y"));
    CHECK(must(zero.end(60s)));
    CHECK(must(two.end(60s)));
    CHECK(zero.number() == two.number());
    numbers.insert(zero.number());
  }
  MpiExchange other(place, 0, "b", {0, 1});
  must(other.begin("z"));
  CHECK_FALSE(must(other.end(1ms)));
  must(other.finish());  // node 1 has no ranks left
  CHECK(must(other.end(60s)) == std::string("z"));
  numbers.insert(other.number());
  CHECK(numbers.size() == 3);
}

TEST_CASE("every node of MPI learns each rank that any of them has lost, in one order") {
  RoundStore store;
  MpiExchange first = exchange_of(0, store), last = exchange_of(2, store);
  CHECK_FALSE(must(first.next_lost(1ms)));
  CHECK(must(last.publish_lost(7)) == 1);
  CHECK(must(first.publish_lost(2)) == 2);
  for (MpiExchange* each : {&first, &last}) {
    CHECK(must(each->next_lost(60s)) == 7);
    CHECK(must(each->next_lost(60s)) == 2);
    CHECK_FALSE(must(each->next_lost(1ms)));
  }
}
