// SPDX-License-Identifier: Apache-2.0
#include "agent/web/site.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "agent/ask/status.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

using namespace ddprun::agent::web;
using ddprun::must;
using ddprun::agent::ask::Answer;
using ddprun::agent::ask::JobStatus;
using ddprun::agent::ask::Question;
using ddprun::agent::ask::Respond;
using ddprun::tests::contains;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// The site of a job and its clients on one event loop. The test gives the job's answers.
struct SeenSite {
  asio::io_context io{1};
  std::vector<Question> asked;
  std::optional<Answer> answer = Answer{200, "{\"of\":\"the job\"}\n"};  // nullopt: none comes
  std::vector<Respond> waiting;
  std::optional<Site> site;
  std::uint16_t port = 0;
  std::string token;

  SeenSite() {
    site.emplace(
        io.get_executor(),
        [this](const Question& question, const Respond& respond) {
          asked.push_back(question);
          answer ? respond(*answer) : waiting.push_back(respond);
        },
        "gpu-01");
    const std::string url = must(site->open({"127.0.0.1", 0}));
    REQUIRE(url.starts_with("http://127.0.0.1:"));
    port = static_cast<std::uint16_t>(std::stoi(url.substr(17)));
    token = url.substr(url.find('=') + 1);
    REQUIRE(token.size() == 32);
  }

  void run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(40);
    io.restart();
    while (!done() && std::chrono::steady_clock::now() < end)
      io.run_one_for(std::chrono::seconds(1));
    REQUIRE(done());
  }

  tcp::socket send(const std::string& request) {
    tcp::socket socket(io);
    socket.connect({asio::ip::make_address("127.0.0.1"), port});
    asio::write(socket, asio::buffer(request));
    return socket;
  }

  std::string request(const std::string& target, const std::string& host = "127.0.0.1") const {
    const std::string separator = contains(target, "?") ? "&" : "?";
    return "GET " + target + separator + "token=" + token + " HTTP/1.1\r\nHost: " + host +
           "\r\n\r\n";
  }

  /// Reads until the server closes.
  std::string get(const std::string& request) {
    tcp::socket socket = send(request);
    std::string all;
    bool ended = false;
    asio::async_read(socket, asio::dynamic_buffer(all),
                     [&ended](boost::system::error_code, size_t) { ended = true; });
    run_until([&ended] { return ended; });
    return all;
  }
};

/// A client that reads the events.
struct Viewer {
  tcp::socket socket;
  std::string seen = {};
  bool ended = false;

  void read(SeenSite& world, const std::string& until) {
    while (!contains(seen, until)) {
      char bytes[4096];
      bool done = false;
      socket.async_read_some(asio::buffer(bytes),
                             [&](boost::system::error_code failure, size_t count) {
                               seen.append(bytes, count);
                               done = true;
                               ended = bool(failure);
                             });
      world.run_until([&done] { return done; });
      REQUIRE(!ended);
    }
  }
};

}  // namespace

TEST_CASE("web site: a client without the token, or with another host name, gets nothing") {
  SeenSite world;
  for (const std::string& request :
       {std::string("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        std::string("GET /nowhere?token=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        "GET /?token=" + world.token + " HTTP/1.0\r\n\r\n",
        world.request("/metrics", "evil.example"), world.request("/api/events", "evil.example"),
        std::string("POST /stop HTTP/1.1\r\nHost: localhost\r\n\r\n")}) {
    INFO(request);
    const std::string answer = world.get(request);
    CHECK(answer.starts_with("HTTP/1."));
    CHECK(contains(answer, " 403 Forbidden\r\n"));
    CHECK(contains(answer, "Content-Length: 0\r\n"));
    CHECK(answer.ends_with("\r\n\r\n"));
  }
  CHECK(world.asked.empty());
}

TEST_CASE("web site: a request with an endless body is refused by its header") {
  SeenSite world;
  const std::string head =
      "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* chunk : {"1;", "1;a=b\r\nx\r\n", "0\r\nA: b"}) {
    INFO(chunk);
    Viewer attacker{world.send(head + chunk)};
    attacker.socket.non_blocking(true);
    const std::string more(64 * 1024, 'x');
    std::size_t sent = 0;
    boost::system::error_code closed;
    while (!closed && sent < 64 * 1024 * 1024) {
      sent += attacker.socket.write_some(asio::buffer(more), closed);
      if (closed == asio::error::would_block) closed = {};
      world.io.restart();
      world.io.run_one_for(std::chrono::milliseconds(10));
    }
    CHECK(closed);
  }
  Viewer polite{world.send(head)};
  polite.read(world, "HTTP/1.1 411 Length Required\r\n");
  CHECK(world.asked.empty());
}

TEST_CASE("web site: the page comes with headers that limit the browser") {
  SeenSite world;
  const std::string answer = world.get(world.request("/"));
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(contains(answer, "Content-Type: text/html; charset=utf-8\r\n"));
  CHECK(contains(answer, "Content-Security-Policy: default-src 'none'; script-src 'sha256-"));
  CHECK(contains(answer, "Referrer-Policy: no-referrer\r\n"));
  CHECK(contains(answer, "Cache-Control: no-store\r\n"));
  CHECK(answer.ends_with(kPage));
  CHECK(kPage.size() <= 40 * 1024);
  CHECK(!contains(std::string(kPage), "innerHTML"));
  CHECK(!contains(std::string(kPagePolicy), "unsafe"));
}

TEST_CASE("web site: only questions about the job go to the job") {
  SeenSite world;
  CHECK(world.get(world.request("/api/status")).ends_with("{\"of\":\"the job\"}\n"));
  world.get(world.request("/api/logs/3?from=17&node=1"));
  world.get(world.request("/api/stacks?native=1"));
  REQUIRE(world.asked.size() == 3);
  CHECK(world.asked[0].path == "/status");
  CHECK(world.asked[0].query.empty());
  CHECK(world.asked[1].path == "/logs/3");
  CHECK(world.asked[1].query == "from=17");
  CHECK(world.asked[2].path == "/stacks");
  CHECK(world.asked[2].query == "native=1");
  CHECK(contains(world.get(world.request("/stop")), " 404 Not Found\r\n"));
  CHECK(contains(world.get("POST" + world.request("/api/status").substr(3)), " 405 "));
  CHECK(world.asked.size() == 3);
}

TEST_CASE("web site: metrics are made of the job's answer") {
  SeenSite world;
  JobStatus status;
  status.round = 4;
  world.answer->body = to_json(status);
  const std::string answer = world.get(world.request("/metrics"));
  CHECK(contains(answer, "Content-Type: application/openmetrics-text; version=1.0.0"));
  CHECK(contains(answer, "\nddprun_round 4\n"));
  world.answer->body = "nonsense";
  CHECK(contains(world.get(world.request("/metrics")), " 503 Service Unavailable\r\n"));
}

TEST_CASE("web site: the job is asked once for all clients, and not at all without one") {
  SeenSite world;
  world.answer.reset();
  Viewer one{world.send(world.request("/api/events"))};
  Viewer two{world.send(world.request("/api/events"))};
  one.read(world, "\"verdict\":\"this node is in no round yet\"");
  two.read(world, "\"verdict\":\"this node is in no round yet\"");
  CHECK(contains(one.seen, "Content-Type: text/event-stream\r\n"));
  CHECK(contains(one.seen, "\r\n\r\nretry: 2000\n\ndata: {"));
  CHECK(world.asked.size() == 1);
  world.waiting[0]({200, "{\"first\":1}\n"});
  one.read(world, ",\"status\":{\"first\":1}}\n\n");
  two.read(world, ",\"status\":{\"first\":1}}\n\n");
  world.run_until([&world] { return world.asked.size() == 2; });

  world.site->tell([](History& history, double at) { history.changed(at, "a node is gone"); });
  one.read(world, "\"verdict\":\"a node is gone\"");

  one.socket.close();
  two.socket.close();
  world.get(world.request("/"));  // when it answers, the site knows that both are gone
  world.waiting[1]({200, "{}"});
  world.io.restart();
  world.io.run_for(std::chrono::seconds(1));  // twice as long as between two questions
  CHECK(world.asked.size() == 2);
}

TEST_CASE("web site: a client that does not read delays no other") {
  SeenSite world;
  Viewer stopped{world.send(world.request("/api/events"))};
  Viewer reader{world.send(world.request("/api/events"))};
  reader.read(world, "the job");
  for (int i = 0; i < 100; ++i) {
    const std::string text = "change " + std::to_string(i);
    world.site->tell([&text](History& history, double at) {
      history.changed(at, text + " " + std::string(900, 'x'));
    });
    reader.read(world, text);
    reader.seen.clear();
  }
}

TEST_CASE("web site: the job may answer after the site is gone") {
  SeenSite world;
  world.answer.reset();
  tcp::socket status = world.send(world.request("/api/status"));
  tcp::socket metrics = world.send(world.request("/metrics"));
  tcp::socket events = world.send(world.request("/api/events"));
  world.run_until([&world] { return world.waiting.size() == 3; });
  world.site.reset();
  for (const Respond& respond : world.waiting) respond({200, "{}"});
  world.io.restart();
  world.io.poll();
}

TEST_CASE("web site: the error names a taken port") {
  SeenSite world;
  Site other(world.io.get_executor(), [](const Question&, const Respond&) {}, "gpu-01");
  const auto opened = other.open({"127.0.0.1", world.port});
  REQUIRE(!opened);
  CHECK(opened.error().code == ddprun::Errc::port_in_use);
  CHECK(contains(opened.error().message, "127.0.0.1:" + std::to_string(world.port)));
}
