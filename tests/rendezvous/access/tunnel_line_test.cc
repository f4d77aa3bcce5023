// SPDX-License-Identifier: Apache-2.0
// Tests the frames that one end of a tunnel sends and takes.
#include "rendezvous/access/tunnel_line.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

#include "rendezvous/access/tunnel_flow.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
namespace asio = boost::asio;
using asio::local::stream_protocol;
using FrameKind = TunnelFrame::Kind;

namespace {

constexpr std::size_t kWindow = TunnelFlow::kWindow;

std::string frame_body(const TunnelFrame& frame) {
  return encode(frame).substr(4);
}

std::pair<stream_protocol::socket, stream_protocol::socket> pair_of(asio::io_context& io) {
  std::pair<stream_protocol::socket, stream_protocol::socket> both{stream_protocol::socket(io),
                                                                   stream_protocol::socket(io)};
  asio::local::connect_pair(both.first, both.second);
  both.second.non_blocking(true);
  return both;
}

/// The bytes that have come so far.
std::string read_from(stream_protocol::socket& socket) {
  std::string received(1 << 20, '\0');
  boost::system::error_code failure;
  received.resize(socket.read_some(asio::buffer(received), failure));
  if (failure == asio::error::eof) received += "<end>";
  return received;
}

/// Runs handlers until none is ready.
void settle(asio::io_context& io) {
  while (io.poll() > 0) io.restart();
}

/// A tunnel without encryption, between a worker and the store; the test is both.
struct Tunnel : World {
  Tunnel() {
    auto [ours, theirs] = pair_of(io);
    agent = std::make_unique<TunnelLine>(
        std::move(ours), "", nullptr,
        TunnelLine::Hooks{nullptr, [this](const Error&) { agent.reset(); }});
    master = std::make_unique<TunnelLine>(
        std::move(theirs), "", nullptr,
        TunnelLine::Hooks{[this](std::string_view begin) { return opened(begin); },
                          [this](const Error&) { master.reset(); }});
  }

  std::optional<StreamSocket> opened(std::string_view begin) {
    if (refuses) return std::nullopt;
    first = begin;
    auto [ours, theirs] = pair_of(io);
    store.emplace(std::move(theirs));
    return StreamSocket(std::move(ours));
  }

  /// A worker that sends `begin`; returns when the store has it.
  stream_protocol::socket connect(const std::string& begin) {
    auto [ours, theirs] = pair_of(io);
    store.reset();
    agent->carry(std::move(ours), begin, {});
    if (!refuses) until([&] { return store.has_value(); });
    return std::move(theirs);
  }

  std::unique_ptr<TunnelLine> agent;
  std::unique_ptr<TunnelLine> master;
  std::optional<stream_protocol::socket> store;
  std::string first;
  bool refuses = false;
};

/// One end of a line whose other end is the test itself.
struct RawEnd : World {
  explicit RawEnd(bool may_open) {
    auto [ours, theirs] = pair_of(io);
    peer.emplace(std::move(theirs));
    TunnelLine::Hooks hooks{nullptr, [this](const Error& error) {
                              lost = error.message;
                              line.reset();
                            }};
    if (may_open) {
      hooks.opened = [this](std::string_view) {
        auto [end, other] = pair_of(io);
        kept.emplace(std::move(other));
        return std::optional<StreamSocket>(std::move(end));
      };
    }
    line = std::make_unique<TunnelLine>(std::move(ours), "", nullptr, std::move(hooks));
  }

  /// Sends `frames` until the other end has taken all, or has closed the line.
  void say(std::string frames) {
    until([&] {
      boost::system::error_code full;
      frames.erase(0, peer->write_some(asio::buffer(frames), full));
      return frames.empty() || !lost.empty();
    });
  }

  std::string reason() {
    until([&] { return !lost.empty(); });
    return lost;
  }

  std::optional<stream_protocol::socket> peer;
  std::optional<stream_protocol::socket> kept;
  std::unique_ptr<TunnelLine> line;
  std::string lost;
};

}  // namespace

TEST_CASE("tunnel: a frame is decoded as it was encoded") {
  for (const TunnelFrame& frame :
       {TunnelFrame{7, FrameKind::open, "greeting"}, TunnelFrame{0xFFFF'FFFF, FrameKind::data, "x"},
        TunnelFrame{1, FrameKind::taken, {}, 0x0102'0304}, TunnelFrame{2, FrameKind::close}}) {
    const std::string body = frame_body(frame);
    const auto decoded = must(decode_tunnel_frame(body));
    CHECK(decoded.connection == frame.connection);
    CHECK(decoded.kind == frame.kind);
    CHECK(decoded.bytes == frame.bytes);
    CHECK(decoded.count == frame.count);
  }
}

TEST_CASE("tunnel: a frame that no tunnel sends is refused") {
  const std::string number(4, '\0');
  const std::string too_long(kMaxTunnelPiece + 1, 'x');
  for (const std::string& body :
       {std::string(), number, number + '\0', number + '\5', number + '\xFF', number + '\1',
        number + '\2', number + "\2" + too_long, number + "\3abc", number + "\3abcde",
        number + "\4a"}) {
    const auto decoded = decode_tunnel_frame(body);
    REQUIRE(!decoded);
    CHECK(decoded.error().code == Errc::protocol);
  }
}

TEST_CASE("tunnel: no more than a window is on its way") {
  TunnelFlow flow;
  CHECK(flow.may_send() == kWindow);
  flow.sent(kWindow);
  CHECK(flow.may_send() == 0);
  must(flow.confirmed(1000));
  CHECK(flow.may_send() == 1000);
  CHECK(!flow.confirmed(kWindow));  // a thousand are not on their way any more

  must(flow.received(kWindow));
  CHECK(!flow.received(1));
  CHECK(!flow.passed_on(kWindow / 4 - 1));
  CHECK(flow.passed_on(1) == kWindow / 4);
  must(flow.received(kWindow / 4));
  CHECK(!flow.received(1));
}

TEST_CASE("tunnel: each connection has its own bytes, in order, and is closed after the last") {
  Tunnel tunnel;
  auto one = tunnel.connect("first");
  CHECK(tunnel.first == "first");
  auto ones_store = std::move(*tunnel.store);
  auto two = tunnel.connect("second");
  asio::write(one, asio::buffer(std::string("from one")));
  asio::write(*tunnel.store, asio::buffer(std::string("to two")));
  std::string at_store, at_two;
  tunnel.until([&] { return (at_store += read_from(ones_store)).size() >= 8; });
  tunnel.until([&] { return (at_two += read_from(two)).size() >= 6; });
  CHECK(at_store == "from one");
  CHECK(at_two == "to two");

  asio::write(one, asio::buffer(std::string("last")));
  one.close();
  at_store.clear();
  tunnel.until([&] { return (at_store += read_from(ones_store)).ends_with("<end>"); });
  CHECK(at_store == "last<end>");
  tunnel.store->close();
  at_two.clear();
  tunnel.until([&] { return (at_two += read_from(two)).ends_with("<end>"); });
  tunnel.until([&] { return tunnel.agent->count() == 0 && tunnel.master->count() == 0; });
}

TEST_CASE("tunnel: a connection that cannot be opened is closed") {
  Tunnel tunnel;
  tunnel.refuses = true;
  auto worker = tunnel.connect("hello");
  std::string received;
  tunnel.until([&] { return (received += read_from(worker)) == "<end>"; });
  CHECK(tunnel.agent->count() == 0);
}

TEST_CASE("tunnel: a connection that is not read holds up no other, and is bounded") {
  Tunnel tunnel;
  auto stuck = tunnel.connect("stuck");
  auto stuck_store = std::move(*tunnel.store);
  const std::string much(1 << 20, 'm');
  std::size_t taken = 0, last = 1;
  stuck.non_blocking(true);
  auto other = tunnel.connect("other");
  auto other_store = std::move(*tunnel.store);
  while (taken != last) {  // until no more is taken while the other one is answered
    last = taken;
    boost::system::error_code full;
    taken += stuck.write_some(asio::buffer(much), full);
    asio::write(other, asio::buffer(std::string("ask")));
    std::string asked;
    tunnel.until([&] { return (asked += read_from(other_store)).size() == 3; });
  }
  // The kernel's buffers of both pairs take some, too.
  CHECK(taken < kWindow + (2 << 20));
  std::size_t arrived = 0;
  tunnel.until([&] { return (arrived += read_from(stuck_store).size()) >= taken; });
  CHECK(arrived == taken);
}

TEST_CASE("tunnel: connections that a full line held up are read when it has room again") {
  RawEnd end(false);
  const std::string value(64 * 1024, 'v');
  std::vector<stream_protocol::socket> workers;
  for (int i = 0; i < 16; ++i) {
    auto [ours, theirs] = pair_of(end.io);
    end.line->carry(std::move(ours), "hello", {});
    asio::write(theirs, asio::buffer(value));
    workers.push_back(std::move(theirs));
  }
  settle(end.io);  // the line is full
  std::size_t arrived = 0;
  end.until(
      [&] { return (arrived += read_from(*end.peer).size()) > workers.size() * value.size(); });
}

TEST_CASE("tunnel: a worker that dies while it is written to is closed at the other end") {
  RawEnd end(false);
  auto [ours, theirs] = pair_of(end.io);
  ours.set_option(asio::socket_base::send_buffer_size(4096));
  end.line->carry(std::move(ours), "hello", {});
  const std::string piece(kMaxTunnelPiece, 'x');
  for (std::size_t size = 0; size + piece.size() <= kWindow; size += piece.size()) {
    end.say(encode({1, FrameKind::data, piece}));
  }
  settle(end.io);  // it waits for room
  theirs.close();
  std::string answer;
  const std::string closed = encode({1, FrameKind::close});
  end.until([&] { return (answer += read_from(*end.peer)).ends_with(closed); });
  settle(end.io);
  CHECK(end.line->count() == 0);
}

TEST_CASE("tunnel: an end that breaks the rules is disconnected") {
  const std::string piece(kMaxTunnelPiece, 'x');
  SECTION("more than the window") {
    RawEnd line(true);
    std::string frames = encode({1, FrameKind::open, "x"});
    for (std::size_t size = 0; size < 16 * kWindow; size += piece.size()) {
      frames += encode({1, FrameKind::data, piece});  // far more than the kernel takes for a reader
    }
    line.say(frames);
    CHECK(tests::contains(line.reason(), "were sent at once"));
  }
  SECTION("a confirmation of bytes that were never sent") {
    RawEnd line(true);
    line.say(encode({1, FrameKind::open, "x"}) + encode({1, FrameKind::taken, {}, 1}));
    CHECK(tests::contains(line.reason(), "are confirmed"));
  }
  SECTION("a connection from the side that may open none") {
    RawEnd line(false);
    line.say(encode({1, FrameKind::open, "x"}));
    CHECK(tests::contains(line.reason(), "cannot be"));
  }
  SECTION("a number twice") {
    RawEnd line(true);
    line.say(encode({1, FrameKind::open, "x"}) + encode({1, FrameKind::open, "x"}));
    CHECK(tests::contains(line.reason(), "cannot be"));
  }
  SECTION("no frame") {
    RawEnd line(true);
    line.say(encode({1, FrameKind::open, ""}));
    CHECK(tests::contains(line.reason(), "no tunnel sends"));
  }
  SECTION("a frame that is too long") {
    RawEnd line(true);
    line.say(encode({1, FrameKind::open, piece + "x"}));
    CHECK(tests::contains(line.reason(), "allowed"));
  }
}

TEST_CASE("tunnel: frames of a connection that is closed at this end are ignored") {
  RawEnd line(true);
  line.say(encode({9, FrameKind::data, "late"}) + encode({9, FrameKind::taken, {}, 5}) +
           encode({9, FrameKind::close}) + encode({10, FrameKind::open, "x"}));
  line.until([&] { return line.kept.has_value(); });
  CHECK(line.lost.empty());
}

TEST_CASE("tunnel: a line takes little before its other end is proven") {
  World world;
  const auto security = must(Security::of_job(Secret("our secret"), "job"));
  auto [ours, theirs] = pair_of(world.io);
  bool drained = false;
  ControlConnection agent(
      std::move(ours), "",
      {[](std::string_view) {}, [](const Error&) {}, [&drained] { drained = true; }}, kMaxFrame,
      std::make_unique<SecureChannel>(security, SecureChannel::Role::agent));
  CHECK(!agent.has_room());
  const ControlConnection master(
      std::move(theirs), "", {[](std::string_view) {}, [](const Error&) {}}, kMaxFrame,
      std::make_unique<SecureChannel>(security, SecureChannel::Role::master));
  world.until([&drained] { return drained; });
  CHECK(agent.has_room());
}
