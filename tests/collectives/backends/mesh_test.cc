// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/mesh.h"

#include <array>
#include <chrono>
#include <functional>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>

#include "tests/catch.h"
#include "tests/collectives/backends/other_end.h"

using namespace ddp::internal;
using namespace std::chrono_literals;
using ddprun::Fd;

/// Works without a store: the caller plays the other ranks.
CpuListeners::CpuListeners(const GroupContext& context, Known /*known*/)
    : context_(context),
      own_(io_context_, {boost::asio::ip::address_v4::loopback(), 0}),
      endpoint_(own_.local_endpoint()) {}
CpuListeners::Listener CpuListeners::at(int /*rank*/) const {
  return {endpoint_, 1};
}
void CpuListeners::release_to(boost::asio::ip::tcp::acceptor& acceptor) {
  acceptor.assign(boost::asio::ip::tcp::v4(), own_.release());
}

namespace {

/// Rank 0, and the listener of rank 1.
struct Pair {
  explicit Pair(std::chrono::milliseconds grace = 20s) : mesh(context, listeners, grace) {
    listeners.release_to(other);
    mesh.set_deadline(std::chrono::steady_clock::now() + 30s);
  }

  GroupContext context = [] {
    GroupContext of_two;
    of_two.size = 2;
    return of_two;
  }();
  CpuListeners listeners{context, CpuListeners::Known::all};
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor other{io};
  CpuMesh mesh;
};

/// Accepts a connection and resets it, as a process does that ends with unread data.
void reset_one(Pair& pair) {
  boost::asio::ip::tcp::socket socket(pair.io);
  pair.other.accept(socket);
  socket.set_option(boost::asio::socket_base::linger(true, 0));
}

void send_byte(const Fd& theirs) {
  REQUIRE(::send(theirs.get(), "x", 1, 0) == 1);
}

/// A connection of rank 1 with one byte, and then its end unless the result is kept.
Fd arrive(Pair& pair) {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
  Fd theirs(ends[0]);
  Fd ours(ends[1]);
  send_byte(theirs);
  pair.mesh.accept(1, std::move(ours));
  return theirs;
}

char receive_byte(Pair& pair) {
  char byte = 0;
  std::array<CpuMesh::Receiving, 1> in = {{{.rank = 1, .data = &byte, .bytes = 1}}};
  pair.mesh.move({}, in);
  return byte;
}

/// The mesh connects to rank 1, which has no room until another connection is accepted, and gets
/// its byte before that. Returns the connection of the byte.
Fd receive_before_connected(Pair& pair) {
  REQUIRE(::listen(pair.other.native_handle(), 0) == 0);
  boost::asio::ip::tcp::socket other(pair.io);
  other.connect(pair.other.local_endpoint());
  pair.mesh.set_deadline(std::chrono::steady_clock::now());
  CHECK_THROWS_AS(receive_byte(pair), PeerLate);
  pair.mesh.set_deadline(std::chrono::steady_clock::now() + 30s);
  Fd theirs = arrive(pair);
  CHECK(receive_byte(pair) == 'x');
  static_cast<void>(pair.other.accept());
  return theirs;
}

/// Reads the first frame on a connection of the mesh, the greeting.
Frame greeting_on(boost::asio::ip::tcp::socket& socket) {
  Frame frame;
  REQUIRE(boost::asio::read(socket, boost::asio::buffer(&frame, sizeof(frame))) == sizeof(frame));
  return frame;
}

}  // namespace

TEST_CASE("an abort during the begin of a wait ends the wait") {
  Pair pair;
  char byte = 0;
  const auto abort = [&] {
    pair.mesh.abort();
    return std::size_t{1};
  };
  std::array<CpuMesh::Receiving, 1> in = {{{.rank = 1, .data = &byte, .bytes = 0, .more = abort}}};
  CHECK_THROWS_AS(pair.mesh.move({}, in), MeshStopped);  // at the deadline another exception comes
}

TEST_CASE("data that a rank sent before its end arrives, however the rank ended") {
  Pair pair;
  std::thread other([&] {
    reset_one(pair);
    static_cast<void>(arrive(pair));
  });
  char byte = 0;
  CHECK_NOTHROW(byte = receive_byte(pair));
  other.join();
  CHECK(byte == 'x');
}

TEST_CASE("data that a rank sent arrives even if the rank listens no longer") {
  Pair pair;
  pair.other.close();
  std::thread other([&] { static_cast<void>(arrive(pair)); });
  char byte = 0;
  CHECK_NOTHROW(byte = receive_byte(pair));
  other.join();
  CHECK(byte == 'x');
}

TEST_CASE("a rank that has ended is lost soon, with the reason") {
  Pair pair(0ms);
  pair.other.close();
  try {
    receive_byte(pair);
    FAIL("there is no rank 1");
  } catch (const PeerLost& lost) {
    CHECK(lost.rank == 1);
    CHECK(lost.reason == "Connection refused");
  }
}

TEST_CASE("a connection made when nothing needs it any more says whose it is") {
  Pair pair;
  const Fd theirs = receive_before_connected(pair);
  auto late = pair.other.accept();
  send_byte(theirs);
  CHECK(receive_byte(pair) == 'x');
  CHECK(greeting_on(late).kind == Frame::Kind::calls);
}

TEST_CASE("a connection that the other rank ends before it knows whose it is is made again") {
  Pair pair;
  const Fd theirs = receive_before_connected(pair);
  auto ended = pair.other.accept();
  const int ours = ddprun::tests::other_end_of(ended);
  ended.set_option(boost::asio::socket_base::linger(true, 0));
  ended.close();
  ddprun::tests::wait_for_input(ours);
  std::array<CpuMesh::Sending, 1> out = {{{.rank = 1, .parts = {std::span("y", 1)}}}};
  REQUIRE_NOTHROW(pair.mesh.move(out, {}));
  auto again = pair.other.accept();
  CHECK(greeting_on(again).kind == Frame::Kind::calls);
  char byte = 0;
  boost::asio::read(again, boost::asio::buffer(&byte, 1));
  CHECK(byte == 'y');
}
