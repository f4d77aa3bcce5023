// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/gateway.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/unused_port.h"

namespace ddprun::rendezvous::etcd {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;
using tests::contains;

/// Answers each request with the next of `answers`; stays silent if there is none.
class FakeEtcd {
 public:
  explicit FakeEtcd(asio::io_context& context)
      : acceptor_(context, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }

  Endpoint endpoint() const { return {"127.0.0.1", acceptor_.local_endpoint().port()}; }

  std::deque<std::string> answers;
  std::vector<std::string> requests;

 private:
  struct Line {
    explicit Line(tcp::socket from) : socket(std::move(from)) {}
    tcp::socket socket;
    std::string received{};
    std::string answer{};
  };

  void accept() {
    acceptor_.async_accept([this](boost::system::error_code failure, tcp::socket socket) {
      if (failure) return;
      auto line = std::make_shared<Line>(std::move(socket));
      lines_.push_back(line);
      // Every request of ours ends so.
      asio::async_read_until(line->socket, asio::dynamic_buffer(line->received), "}",
                             [this, line](auto, size_t) { reply(line); });
      accept();
    });
  }

  void reply(const std::shared_ptr<Line>& line) {
    requests.push_back(line->received);
    if (answers.empty()) return;
    line->answer = answers.front();
    answers.pop_front();
    asio::async_write(line->socket, asio::buffer(line->answer), [line](auto, size_t) {});
  }

  tcp::acceptor acceptor_;
  std::vector<std::shared_ptr<Line>> lines_;
};

std::string http(int status, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) +
         " text\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The answer to one request.
Result<std::string> ask(asio::io_context& context, Gateway& gateway,
                        std::chrono::milliseconds limit = 60s) {
  std::optional<Result<std::string>> answer;
  gateway.ask({"/v3/kv/txn", "{}"}, limit, [&](const Result<std::string>& body) { answer = body; });
  while (!answer) context.run_one();
  return *answer;
}

Gateway::Options options(std::vector<Endpoint> servers, std::string user = "") {
  return {{std::move(servers), std::move(user), "p\"w"}, {}};
}

TEST_CASE("a request is posted, and the answer's body comes back with this host's address") {
  asio::io_context context;
  FakeEtcd etcd(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint()}));
  CHECK_FALSE(gateway.own_address().has_value());
  etcd.answers = {http(200, "yes")};
  CHECK(must(ask(context, gateway)) == "yes");
  CHECK(contains(etcd.requests[0], "POST /v3/kv/txn HTTP/1.1\r\nHost: " + etcd.endpoint().text()));
  CHECK(gateway.own_address()->is_loopback());
}

TEST_CASE("the gateway passes over closed and leaderless servers, and keeps the one that answers") {
  asio::io_context context;
  FakeEtcd leaderless(context), good(context);
  Gateway gateway(
      context.get_executor(),
      options({{"127.0.0.1", tests::unused_port()}, leaderless.endpoint(), good.endpoint()}));
  leaderless.answers = {http(503, R"({"error":"etcdserver: no leader"})")};
  good.answers = {http(200, "1"), http(200, "2")};
  CHECK(must(ask(context, gateway)) == "1");
  CHECK(leaderless.requests.size() == 1);
  CHECK(must(ask(context, gateway)) == "2");
  CHECK(leaderless.requests.size() == 1);
}

TEST_CASE("a server that is silent is passed over when the limit is over") {
  asio::io_context context;
  FakeEtcd silent(context);
  const Endpoint closed{"127.0.0.1", tests::unused_port()};
  Gateway gateway(context.get_executor(), options({silent.endpoint(), closed}));
  const auto answer = ask(context, gateway, 50ms);
  REQUIRE_FALSE(answer.has_value());
  CHECK(contains(answer.error().message, "etcd at " + closed.text() + ": "));
}

TEST_CASE("a connection that fails at once is an error like any other") {
  asio::io_context context;
  Gateway::Options from_ipv4 = options({{"::1", tests::unused_port()}});
  from_ipv4.local = asio::ip::address_v4::loopback();
  Gateway gateway(context.get_executor(), std::move(from_ipv4));
  const auto answer = ask(context, gateway);
  REQUIRE_FALSE(answer.has_value());
  CHECK(contains(answer.error().message, "cannot connect from 127.0.0.1"));
  context.poll();
  CHECK(context.stopped());  // no handler is left
}

TEST_CASE("if no server answers, the error names the last one and the reason") {
  asio::io_context context;
  FakeEtcd leaderless(context);
  Gateway gateway(context.get_executor(),
                  options({{"127.0.0.1", tests::unused_port()}, leaderless.endpoint()}));
  leaderless.answers = {http(503, R"({"error":"etcdserver: no leader"})")};
  const auto answer = ask(context, gateway);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == Errc::unreachable);
  CHECK(answer.error().message ==
        "etcd at " + leaderless.endpoint().text() + ": etcdserver: no leader");
}

TEST_CASE("a refused request is not repeated") {
  asio::io_context context;
  FakeEtcd etcd(context), other(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint(), other.endpoint()}));
  etcd.answers = {http(404, R"({"error":"etcdserver: requested lease not found"}Grpc: x)")};
  const auto answer = ask(context, gateway);
  REQUIRE_FALSE(answer.has_value());
  CHECK(contains(answer.error().message, ": etcdserver: requested lease not found"));
  CHECK(other.requests.empty());
}

TEST_CASE("a server that is no etcd is passed over") {
  asio::io_context context;
  FakeEtcd stranger(context), etcd(context);
  Gateway gateway(context.get_executor(), options({stranger.endpoint(), etcd.endpoint()}));
  stranger.answers = {http(404, "404 page not found\n")};
  etcd.answers = {http(200, "yes")};
  CHECK(must(ask(context, gateway)) == "yes");
}

TEST_CASE("a server whose answer has no end is passed over") {
  asio::io_context context;
  FakeEtcd endless(context), etcd(context);
  Gateway gateway(context.get_executor(), options({endless.endpoint(), etcd.endpoint()}));
  const std::string more(1'000'000, 'x');
  const char* begin = GENERATE("5;", "0\r\nA: ");  // a chunk's extension, and a trailer
  endless.answers = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (begin + more)};
  etcd.answers = {http(200, "yes")};
  CHECK(must(ask(context, gateway, 300s)) == "yes");
}

TEST_CASE("an answer in chunks is put together") {
  asio::io_context context;
  FakeEtcd etcd(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint()}));
  std::string body;
  std::string answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 10; ++i) {
    const std::string chunk(10'000, static_cast<char>('a' + i));
    body += chunk;
    answer += "2710;a=b\r\n" + chunk + "\r\n";
  }
  etcd.answers = {answer + "0\r\nGrpc-Status: 0\r\n\r\n"};
  CHECK(must(ask(context, gateway)) == body);
}

TEST_CASE("etcd refuses ddprun for good only if all its servers do") {
  asio::io_context context;
  FakeEtcd etcd(context), other(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint(), other.endpoint()}));
  const std::string refusal = http(403, R"({"error":"etcdserver: permission denied"})");
  etcd.answers = {refusal, refusal};
  other.answers = {refusal, http(503, R"({"error":"etcdserver: no leader"})")};
  const auto refused = ask(context, gateway);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == Errc::usage);
  CHECK(refused.error().message == "etcd at " + other.endpoint().text() +
                                       ": etcdserver: permission denied; its role has to read and "
                                       "write the keys below /ddprun/");
  const auto waits = ask(context, gateway);
  REQUIRE_FALSE(waits.has_value());
  CHECK(waits.error().code == Errc::unreachable);
}

TEST_CASE("a refusal by etcd or another program has a kind and a sentence") {
  using Kind = Refusal::Kind;
  const auto [status, body, kind, sentence] =
      GENERATE(table<unsigned, const char*, Kind, const char*>(
          {{503, R"({"error":"etcdserver: no leader"})", Kind::server, "etcdserver: no leader"},
           {429, R"({"error":"etcdserver: too many requests"})", Kind::server,
            "etcdserver: too many requests"},
           {404, "<html>\n", Kind::server,
            "HTTP status 404: it does not answer as etcd 3.4 or later"},
           {400, "Client sent an HTTP request to an HTTPS server.", Kind::lasting,
            "it speaks TLS: give --rdzv_conf protocol=https,cacert=FILE"},
           {401, R"({"error":"etcdserver: invalid auth token"})", Kind::token,
            "etcdserver: invalid auth token"},
           {400, R"({"error":"etcdserver: authentication failed, invalid user ID or password"})",
            Kind::lasting,
            "user 'ddp': etcdserver: authentication failed, invalid user ID or password; correct "
            "DDPRUN_ETCD_USER=name:password"},
           {404, R"({"error":"etcdserver: requested lease not found"})", Kind::request,
            "etcdserver: requested lease not found"}}));
  const Refusal refusal = judge_refusal(status, body, "ddp");
  CHECK(refusal.kind == kind);
  CHECK(refusal.sentence == sentence);
}

TEST_CASE("an answer that is no HTTP, or too long, is an error") {
  asio::io_context context;
  FakeEtcd etcd(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint()}));
  etcd.answers = {"SSH-2.0-OpenSSH\r\n\r\n",
                  "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"};
  CHECK_FALSE(ask(context, gateway).has_value());
  CHECK_FALSE(ask(context, gateway).has_value());
}

TEST_CASE("a user logs in once, and again when etcd refuses the token") {
  const int refusal = GENERATE(401, 400);  // 400: "revision of auth store is old"
  asio::io_context context;
  FakeEtcd etcd(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint()}, "ddp"));
  etcd.answers = {http(200, R"({"header":{},"token":"T.1"})"), http(200, "1"),
                  http(refusal, R"({"error":"etcdserver: invalid auth token"})"),
                  http(200, R"({"header":{},"token":"T.2"})"), http(200, "2")};
  CHECK(must(ask(context, gateway)) == "1");
  CHECK(contains(etcd.requests[0], R"({"name":"ddp","password":"p\"w"})"));
  CHECK(contains(etcd.requests[1], "Authorization: T.1"));
  CHECK_FALSE(ask(context, gateway).has_value());
  CHECK(must(ask(context, gateway)) == "2");
  CHECK(contains(etcd.requests.back(), "Authorization: T.2"));
}

TEST_CASE("a user that etcd does not know is refused for good") {
  asio::io_context context;
  FakeEtcd etcd(context);
  Gateway gateway(context.get_executor(), options({etcd.endpoint()}, "ddp"));
  etcd.answers = {http(400, R"({"error":"etcdserver: authentication failed"})")};
  const auto answer = ask(context, gateway);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().code == Errc::usage);
}

TEST_CASE("a destroyed gateway calls no hook") {
  asio::io_context context;
  FakeEtcd etcd(context);
  bool called = false;
  {
    Gateway gateway(context.get_executor(), options({etcd.endpoint()}));
    gateway.ask({"/", "{}"}, 60s, [&called](const auto&) { called = true; });
    while (etcd.requests.empty()) context.run_one();
    gateway.ask({"/", "{}"}, 60s, [&called](const auto&) { called = true; });
  }
  context.poll();
  CHECK_FALSE(called);
}

}  // namespace
}  // namespace ddprun::rendezvous::etcd
