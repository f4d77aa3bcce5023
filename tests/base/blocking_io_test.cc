// SPDX-License-Identifier: Apache-2.0
#include "base/blocking_io.h"

#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>

#include "tests/catch.h"

namespace ddprun {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Both ends of a connection.
struct Ends {
  Ends() {
    int fds[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    here.reset(fds[0]);
    there.reset(fds[1]);
  }
  Fd here;
  Fd there;
};

Deadline in_a_minute() {
  return steady_clock::now() + 60s;
}

Deadline in_a_moment() {
  return steady_clock::now() + 10ms;
}

}  // namespace

TEST_CASE("more bytes than a socket holds reach the reader", "[base]") {
  Ends ends;
  const std::string sent(4 << 20, 'x');
  std::string received(sent.size(), '\0');
  int error = -1;
  std::thread reader([&] { error = receive_all(ends.there, received, in_a_minute()); });
  CHECK(send_all(ends.here, sent, in_a_minute()) == 0);
  reader.join();
  CHECK(error == 0);
  CHECK(received == sent);
}

TEST_CASE("a peer that neither reads nor writes is given up at the deadline", "[base]") {
  Ends ends;
  std::array<char, 1> byte;
  CHECK(receive_all(ends.here, byte, in_a_moment()) == ETIMEDOUT);
  CHECK(send_all(ends.here, std::string(4 << 20, 'x'), in_a_moment()) == ETIMEDOUT);
}

TEST_CASE("a peer that closed the connection causes an error, and no signal", "[base]") {
  Ends ends;
  REQUIRE(send_all(ends.there, "ab", in_a_minute()) == 0);
  ends.there.reset();
  std::array<char, 4> bytes;
  CHECK(receive_all(ends.here, bytes, in_a_minute()) == ENODATA);
  size_t size = 1;
  CHECK(receive_some(ends.here, bytes, in_a_minute(), size) == 0);
  CHECK(size == 0);
  CHECK(send_all(ends.here, "c", in_a_minute()) == EPIPE);
}

TEST_CASE("the next address of a host is tried after one that refuses", "[base]") {
  const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  REQUIRE(bind(listener.get(), any, size) == 0);
  REQUIRE(getsockname(listener.get(), any, &size) == 0);

  const auto there = resolve("127.0.0.1", ntohs(address.sin_port));
  const auto elsewhere = resolve("127.0.0.2", ntohs(address.sin_port));
  REQUIRE(there.has_value());
  REQUIRE(elsewhere.has_value());
  addrinfo both = **elsewhere;
  both.ai_next = there->get();
  Fd socket;
  CHECK(connect_to(both, in_a_minute(), socket) == ECONNREFUSED);
  REQUIRE(listen(listener.get(), 8) == 0);
  CHECK(connect_to(both, in_a_minute(), socket) == 0);
  CHECK(send_all(socket, "hello", in_a_minute()) == 0);
}

TEST_CASE("a host without an address is named by the resolver's reason", "[base]") {
  const auto none = resolve("no.such.host.invalid", 1);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == Errc::usage);
  CHECK_FALSE(none.error().message.empty());
}

}  // namespace ddprun
