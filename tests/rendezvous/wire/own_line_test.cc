// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/own_line.h"

#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

struct OwnLine {
  boost::asio::io_context io;
  std::vector<Result<Message>> at_server;
  std::vector<Result<Reply>> at_agent;
  int lost_by_server = 0;
  int lost_by_agent = 0;
  std::unique_ptr<AgentsEnd> agent = std::make_unique<AgentsEnd>(
      io.get_executor(),
      AgentsEnd::Hooks{[this](Result<Reply> reply) { at_agent.push_back(std::move(reply)); },
                       [this] { ++lost_by_agent; }});
  std::unique_ptr<ServersEnd> server = std::make_unique<ServersEnd>(
      io.get_executor(), ServersEnd::Hooks{[this](Result<Message> message) {
                                             at_server.push_back(std::move(message));
                                           },
                                           [this] { ++lost_by_server; }});

  OwnLine() { server->connect(*agent); }

  void run() {
    io.restart();
    io.run();
  }
};

Failure failure_with(std::string cause) {
  Failure failure;
  failure.wait_status = 256;
  failure.cause = std::move(cause);
  return failure;
}

}  // namespace

TEST_CASE("own line: messages arrive in order, each in a handler of its own") {
  OwnLine line;
  line.agent->send(message::Hello{"job", 1, 1, "host", "session", 0});
  line.agent->send(message::Join{JoinRequest()});
  line.server->send(reply::Welcome{"master"});
  CHECK(line.at_server.empty());
  CHECK(line.io.run_one() == 1);
  CHECK(line.at_server.size() == 1);
  line.run();
  REQUIRE(line.at_server.size() == 2);
  CHECK(std::get<message::Hello>(*line.at_server[0]).session == "session");
  CHECK(std::holds_alternative<message::Join>(*line.at_server[1]));
  REQUIRE(line.at_agent.size() == 1);
  CHECK(std::get<reply::Welcome>(*line.at_agent[0]).master == "master");
}

TEST_CASE("own line: texts of workers are cut and cleaned as on the wire") {
  OwnLine line;
  line.agent->send(message::Fail{0, failure_with("\xff" + std::string(100'000, 'x'))});
  line.agent->send(message::Fail{0, failure_with("\xff")});
  line.server->send(Notification(Broken{"\xff", std::nullopt}));
  line.run();
  REQUIRE(line.at_server.size() == 2);
  CHECK(std::get<message::Fail>(*line.at_server[0]).failure.cause == std::string(4096, 'x'));
  CHECK(std::get<message::Fail>(*line.at_server[1]).failure.cause == "\xef\xbf\xbd");
  CHECK(std::get<Broken>(std::get<Notification>(*line.at_agent.at(0))).reason == "\xef\xbf\xbd");
}

TEST_CASE("own line: a message that no other node would take arrives as an error") {
  OwnLine line;
  Failure success;
  success.wait_status = 0;
  line.agent->send(message::Fail{0, success});
  line.run();
  REQUIRE(line.at_server.size() == 1);
  REQUIRE(!line.at_server[0]);
  CHECK(line.at_server[0].error().code == Errc::protocol);
}

TEST_CASE("own line: the other end loses a destroyed end after its last message") {
  OwnLine line;
  line.agent->send(message::Succeed{0});
  line.server->send(Heartbeat{7});
  line.agent.reset();
  line.run();
  CHECK(line.at_server.size() == 1);
  CHECK(line.lost_by_server == 1);
  CHECK(line.at_agent.empty());
  CHECK(line.lost_by_agent == 0);
  line.server->send(Heartbeat{8});  // it reaches no end
  line.server.reset();
  line.run();
  CHECK(line.lost_by_agent == 0);
}
