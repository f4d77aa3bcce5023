// SPDX-License-Identifier: Apache-2.0
#include "store/client.h"

#include <array>
#include <future>
#include <memory>
#include <sys/socket.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/unused_port.h"

using namespace std::chrono_literals;
using namespace ddprun;
using namespace ddprun::tests;
using boost::asio::ip::make_address;
using boost::asio::ip::tcp;
using StoreClient = ddprun::store::Client;

namespace {

StoreClient client_of(const LiveStore& store, const std::string& host = "127.0.0.1") {
  return must(StoreClient::connect(host, store.port(), 20s, 20s));
}

}  // namespace

TEST_CASE("a value that one client sets arrives at another, byte for byte") {
  const LiveStore store;
  StoreClient writer = client_of(store);
  StoreClient reader = client_of(store);
  const std::string large(300'000, '\xfe');
  must(writer.set("/large", large));
  must(writer.set("/nul", std::string_view("a\0b", 3)));
  must(writer.set("/empty", ""));
  CHECK(must(reader.get("/large", 20s)) == large);
  CHECK(must(reader.get("/nul", 20s)) == std::string("a\0b", 3));
  CHECK(must(reader.get("/empty", 20s)).empty());
}

TEST_CASE("a get waits for the key") {
  const LiveStore store;
  StoreClient reader = client_of(store);
  auto value = std::async(std::launch::async, [&] { return reader.get("/late", 20s); });
  StoreClient writer = client_of(store);
  must(writer.set("/late", "here"));
  CHECK(must(value.get()) == "here");
}

TEST_CASE("counters, checks, comparisons and removals follow the protocol") {
  const LiveStore store;
  StoreClient client = client_of(store);
  CHECK(must(client.add("/n", 5)) == 5);
  CHECK(must(client.add("/n", -7)) == -2);
  CHECK(must(client.get("/n", 20s)) == "-2");
  CHECK(must(client.check({"/n"})));
  CHECK_FALSE(must(client.check({"/n", "/none"})));
  CHECK(must(client.compare_set("/c", "", "first")) == "first");
  CHECK(must(client.compare_set("/c", "", "second")) == "first");
  CHECK(must(client.compare_set("/c", "first", "third")) == "third");
  CHECK(must(client.delete_key("/c")));
  CHECK_FALSE(must(client.delete_key("/c")));
}

TEST_CASE("a wait that times out leaves the client usable") {
  const LiveStore store;
  StoreClient client = client_of(store);
  for (int i = 0; i < 3; ++i) {
    const auto missing = client.wait({"/a", "/b"}, 20ms);
    REQUIRE(missing.has_error());
    CHECK(missing.error().code == Errc::timed_out);
    CHECK(contains(missing.error().message, "/a"));
    CHECK(contains(missing.error().message, client.server()));
    must(client.set("/x", std::to_string(i)));
    CHECK(must(client.get("/x", 20s)) == std::to_string(i));
  }
}

TEST_CASE("a client knows the address that reaches the server, IPv4 and IPv6") {
  const std::string host = GENERATE("127.0.0.1", "::1");
  const LiveStore store(host);
  CHECK(client_of(store, host).local_address() == host);
}

TEST_CASE("a server that listens later is found") {
  const std::uint16_t port = unused_port();
  auto client = std::async(std::launch::async,
                           [&] { return StoreClient::connect("127.0.0.1", port, 20s, 20s); });
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(make_address("127.0.0.1"), port));
  tcp::socket first = acceptor.accept();
  first.close();  // a server that is shutting down
  tcp::socket second = acceptor.accept();
  std::array<char, 10> hello{};
  boost::asio::read(second, boost::asio::buffer(hello));
  boost::asio::write(second, boost::asio::buffer(hello.data() + 6, 4));
  must(client.get());
}

TEST_CASE("a server that is not a store is an error") {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(make_address("127.0.0.1"), 0));
  const std::uint16_t port = acceptor.local_endpoint().port();
  auto client = std::async(std::launch::async,
                           [&] { return StoreClient::connect("127.0.0.1", port, 20s, 20s); });
  tcp::socket socket = acceptor.accept();
  boost::asio::write(socket, boost::asio::buffer(std::string("HTTP/1.1 400 Bad Request\r\n")));
  const auto result = client.get();
  REQUIRE(result.has_error());
  CHECK(result.error().code == Errc::protocol);
  CHECK(contains(result.error().message, "127.0.0.1:" + std::to_string(port)));
}

TEST_CASE("a silent server ends the wait for a reply, and the error stays") {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(make_address("127.0.0.1"), 0));
  auto connecting = std::async(std::launch::async, [&] {
    return StoreClient::connect("127.0.0.1", acceptor.local_endpoint().port(), 20s, 50ms);
  });
  tcp::socket socket = acceptor.accept();
  std::array<char, 10> hello{};
  boost::asio::read(socket, boost::asio::buffer(hello));
  boost::asio::write(socket, boost::asio::buffer(hello.data() + 6, 4));
  StoreClient client = must(connecting.get());
  const auto first = client.add("/n", 1);
  REQUIRE(first.has_error());
  CHECK(first.error().code == Errc::timed_out);
  const auto second = client.check({"/n"});
  REQUIRE(second.has_error());
  CHECK(second.error().message == first.error().message);
}

TEST_CASE("a connection that is reset during a request is reported as reset") {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(make_address("127.0.0.1"), 0));
  auto connecting = std::async(std::launch::async, [&] {
    return StoreClient::connect("127.0.0.1", acceptor.local_endpoint().port(), 20s, 20s);
  });
  tcp::socket socket = acceptor.accept();
  std::array<char, 10> hello{};
  boost::asio::read(socket, boost::asio::buffer(hello));
  boost::asio::write(socket, boost::asio::buffer(hello.data() + 6, 4));
  StoreClient client = must(connecting.get());
  auto adding = std::async(std::launch::async, [&] { return client.add("/n", 1); });
  boost::asio::read(socket, boost::asio::buffer(hello));  // more of the request may follow
  socket.set_option(boost::asio::socket_base::linger(true, 0));
  socket.close();
  const auto added = adding.get();
  REQUIRE(added.has_error());
  CHECK(added.error().code == Errc::unreachable);
  CHECK(contains(added.error().message, "connection lost: Connection reset by peer"));
}

TEST_CASE("a connection that the server closes is an error that stays") {
  auto store = std::make_unique<LiveStore>();
  StoreClient client = client_of(*store);
  must(client.set("/x", "1"));
  store.reset();
  const auto first = client.check({"/x"});
  REQUIRE(first.has_error());
  CHECK(first.error().code == Errc::unreachable);
  const auto second = client.get("/x", 20s);
  REQUIRE(second.has_error());
  CHECK(second.error().message == first.error().message);
}

TEST_CASE("a host that does not resolve is a usage error that names it") {
  const auto result = StoreClient::connect("no such host", 1, 20s, 20s);
  REQUIRE(result.has_error());
  CHECK(result.error().code == Errc::usage);
  CHECK(contains(result.error().message, "no such host"));
}

TEST_CASE("a reply that crosses the cancelling of its wait is not taken for the next reply") {
  boost::asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(make_address("127.0.0.1"), 0));
  auto waiting = std::async(std::launch::async, [&] {
    StoreClient client = must(StoreClient::connect("127.0.0.1", acceptor.local_endpoint().port(),
                                                   20s, std::chrono::minutes(5)));
    const auto there = client.wait({"/k"}, 0ms);
    return std::pair(there.has_error() && there.error().code == Errc::timed_out,
                     must(client.add("/n", 1)));
  });
  tcp::socket socket = acceptor.accept();
  const auto receive = [&](std::size_t size) {
    std::string bytes(size, '\0');
    boost::asio::read(socket, boost::asio::buffer(bytes));
    return bytes;
  };
  boost::asio::write(socket, boost::asio::buffer(receive(10).substr(6)));  // the hello's echo
  receive(1 + 8 + 8 + 2 + 1);                                              // wait, cancel_wait
  boost::asio::write(socket, boost::asio::buffer(std::string("\0\1", 2)));
  receive(1 + 8 + 2 + 8);  // add
  boost::asio::write(socket, boost::asio::buffer(std::string("\7\0\0\0\0\0\0\0", 8)));
  const auto [timed_out, sum] = waiting.get();
  CHECK(timed_out);
  CHECK(sum == 7);
}
