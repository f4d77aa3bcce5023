// SPDX-License-Identifier: Apache-2.0
// Connections whose other end does not read.
#include "rendezvous/wire/control_connection.h"

#include <array>
#include <string>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "tests/catch.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using boost::asio::ip::tcp;
using boost::asio::local::stream_protocol;

TEST_CASE("send calls no hook, even if the other end does not read") {
  boost::asio::io_context io;
  stream_protocol::socket ours(io), theirs(io);
  boost::asio::local::connect_pair(ours, theirs);
  int lost = 0;
  ControlConnection connection(std::move(ours), "",
                               {[](std::string_view) {},
                                [&](const Error& error) {
                                  ++lost;
                                  CHECK(error.code == Errc::unreachable);
                                }});
  const std::string frame(64 << 10, 'x');
  for (int i = 0; i < 100; ++i) connection.send(frame);
  CHECK(lost == 0);
  io.run();
  CHECK(lost == 1);
}

TEST_CASE("a connection that is dropped after it overflowed calls no hook") {
  boost::asio::io_context io;
  stream_protocol::socket ours(io), theirs(io);
  boost::asio::local::connect_pair(ours, theirs);
  int lost = 0;
  {
    ControlConnection connection(std::move(ours), "",
                                 {[](std::string_view) {}, [&](const Error&) { ++lost; }});
    const std::string frame(64 << 10, 'x');
    for (int i = 0; i < 100; ++i) connection.send(frame);
  }
  io.run();
  CHECK(lost == 0);
}

TEST_CASE("an agent that joins again and again and never reads is lost") {
  World world(RoundSpec{}, std::chrono::milliseconds(300));
  tcp::socket agent(world.io, tcp::v4());
  agent.set_option(tcp::socket::receive_buffer_size(4096));
  agent.connect({boost::asio::ip::address_v4::loopback(), world.port});
  agent.non_blocking(true);
  bool settled = false;
  world.server->when_settled([&] { settled = true; });

  Failure failure;
  failure.wait_status = 256;
  failure.pid = 1;
  failure.host = "deaf";
  failure.stderr_tail = std::string(4096, 'x');
  JoinRequest request;
  request.host = "deaf";
  const std::string join = encode(message::Join{request});
  std::string unsent = greeting() + encode(message::Hello{"job", 1, 1, "deaf", "s", 0}) + join +
                       encode(message::Fail{0, failure});
  world.until([&] {
    unsent += join;  // answered with the job's end, each time
    boost::system::error_code ignored;
    unsent.erase(0, agent.write_some(boost::asio::buffer(unsent), ignored));
    return settled;
  });
}
