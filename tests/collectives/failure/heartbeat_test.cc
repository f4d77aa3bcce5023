// SPDX-License-Identifier: Apache-2.0
#include "ddp/heartbeat.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/catch.h"

namespace ddp {
namespace {

TEST_CASE("a heartbeat reaches the launcher, and the next ones do not wait") {
  const std::string name = "@ddp-heartbeat-test/" + std::to_string(getpid());
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::copy(name.begin() + 1, name.end(), address.sun_path + 1);
  REQUIRE(bind(socket, reinterpret_cast<const sockaddr*>(&address),
               static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0);
  setenv("NOTIFY_SOCKET", name.c_str(), 1);
  for (int step = 120; step < 100'000; ++step) heartbeat(step);  // more than the socket takes
  char bytes[256];
  const ssize_t size = recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
  REQUIRE(size > 0);
  CHECK(std::string(bytes, static_cast<size_t>(size)) == "WATCHDOG=1\nSTATUS=step 120");
  close(socket);
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace ddp
