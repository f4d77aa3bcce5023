// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/http_server.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/completion_condition.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "tests/agent/ask/place.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

using namespace ddprun::agent::ask;
using ddprun::must;
using ddprun::tests::contains;
namespace asio = boost::asio;
using asio::local::stream_protocol;

namespace {

/// A server in a folder of its own, and its clients, on one event loop.
struct AskedServer {
  ddprun::tests::Place place;
  std::string path = place.path() + "/job.1.sock";
  asio::io_context io{1};
  std::vector<std::pair<Question, Respond>> asked;
  std::optional<HttpServer> server;

  AskedServer() { listen(); }

  void listen() {
    server.emplace(io.get_executor(), [this](const Question& question, const Respond& respond) {
      asked.emplace_back(question, respond);
    });
    must(server->listen(path));
  }

  stream_protocol::socket connect() {
    stream_protocol::socket socket(io);
    socket.connect(path);
    return socket;
  }

  void run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    io.restart();
    while (!done() && std::chrono::steady_clock::now() < end)
      io.run_one_for(std::chrono::seconds(1));
    REQUIRE(done());
  }

  /// Returns all that the server sends until it closes.
  std::string read_from(stream_protocol::socket& socket) {
    std::string all;
    bool ended = false;
    asio::async_read(socket, asio::dynamic_buffer(all),
                     [&ended](boost::system::error_code, size_t) { ended = true; });
    run_until([&ended] { return ended; });
    return all;
  }

  std::pair<stream_protocol::socket, Respond> ask(const std::string& request) {
    stream_protocol::socket socket = connect();
    asio::write(socket, asio::buffer(request));
    const size_t before = asked.size();
    run_until([&] { return asked.size() > before; });
    return {std::move(socket), asked.back().second};
  }
};

}  // namespace

TEST_CASE("http server: a question gets one answer") {
  AskedServer world;
  auto [socket, respond] = world.ask("GET /logs/3?from=7 HTTP/1.1\r\nHost: x\r\n\r\n");
  const Question& question = world.asked.at(0).first;
  CHECK(question.method == "GET");
  CHECK(question.path == "/logs/3");
  CHECK(question.query == "from=7");
  respond({404, "{}\n"});
  respond({200, "a second one"});
  const std::string answer = world.read_from(socket);
  CHECK(answer.starts_with("HTTP/1.1 404 Not Found\r\n"));
  CHECK(contains(answer, "Content-Length: 3\r\n"));
  CHECK(answer.ends_with("\r\n\r\n{}\n"));
}

TEST_CASE("http server: an invalid or too long request gets no answer") {
  AskedServer world;
  for (const std::string& bytes :
       {std::string("hello\r\n\r\n"),
        "GET / HTTP/1.1\r\nA: " + std::string(20'000, 'a') + "\r\n\r\n"}) {
    stream_protocol::socket socket = world.connect();
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(bytes), ignored);
    CHECK(world.read_from(socket).empty());
  }
  CHECK(world.asked.empty());
}

TEST_CASE("http server: only the header of a question is read, not its body") {
  AskedServer world;
  for (const std::string& body : {std::string(), std::string(3, 'a'), std::string(100'000, 'a')}) {
    auto [socket, respond] =
        world.ask("POST /stop HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n");
    respond({403, "no"});
    boost::system::error_code ignored;
    asio::write(socket, asio::buffer(body), ignored);
    if (body.size() < 100) socket.shutdown(stream_protocol::socket::shutdown_send);
    CHECK(world.read_from(socket).ends_with("\r\n\r\nno"));
  }
}

TEST_CASE("http server: clients that only connect delay the others only while they are connected") {
  AskedServer world;
  std::vector<stream_protocol::socket> silent;
  for (int i = 0; i < 40; ++i) silent.push_back(world.connect());
  stream_protocol::socket socket = world.connect();
  asio::write(socket, asio::buffer(std::string("GET / HTTP/1.0\r\n\r\n")));
  world.io.restart();
  world.io.poll();
  CHECK(world.asked.empty());  // the silent ones come first
  silent.clear();
  world.run_until([&] { return !world.asked.empty(); });
  world.asked[0].second({200, "here"});
  CHECK(world.read_from(socket).ends_with("\r\n\r\nhere"));
}

TEST_CASE("http server: an answer may come after its client has gone") {
  AskedServer world;
  auto [socket, respond] = world.ask("GET / HTTP/1.1\r\n\r\n");
  SECTION("the client has left") {
    socket.close();
    respond({200, std::string(1'000'000, 'x')});
    auto [next, respond_next] = world.ask("GET /next HTTP/1.1\r\n\r\n");
    respond_next({200, "next"});
    CHECK(world.read_from(next).ends_with("next"));
  }
  SECTION("the server is gone") {
    world.server.reset();
    respond({200, "late"});
    world.read_from(socket);
  }
}

TEST_CASE("http server: it replaces the socket of a killed process, but not of a running one") {
  AskedServer world;
  HttpServer second(world.io.get_executor(), [](const Question&, const Respond&) {});
  CHECK(!second.listen(world.path));  // the first one listens
  world.server.reset();
  CHECK(!std::filesystem::exists(world.path));
  {
    stream_protocol::acceptor killed(world.io, stream_protocol::endpoint(world.path));
  }
  REQUIRE(std::filesystem::exists(world.path));
  world.listen();
  auto [socket, respond] = world.ask("GET / HTTP/1.1\r\n\r\n");
  respond({200, "new"});
  CHECK(world.read_from(socket).ends_with("new"));
}

TEST_CASE("http server: a slow follower gets only the latest of the published bytes") {
  AskedServer world;
  auto [socket, respond] = world.ask("GET / HTTP/1.1\r\n\r\n");
  std::string all;
  const auto read_until = [&, &socket = socket](const std::string& end) {
    while (!all.ends_with(end)) {
      bool has_read = false;
      asio::async_read(socket, asio::dynamic_buffer(all), asio::transfer_at_least(1),
                       [&has_read](boost::system::error_code, size_t) { has_read = true; });
      world.run_until([&has_read] { return has_read; });
    }
  };
  respond({200, "begin\n", "text/plain", {}, true});
  read_until("begin\n");
  world.io.restart();
  world.io.poll();
  bool drained = false;
  for (const std::string& piece :
       {std::string(8'000'000, 'a'), std::string("<2>"), std::string("<3>")})
    world.server->publish(piece);
  world.server->drain([&drained] { drained = true; });
  CHECK(!drained);
  read_until("<3>");
  CHECK(!contains(all, "<2>"));
  world.run_until([&drained] { return drained; });
}
