// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/final_message.h"

#include <array>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

/// The receiver of the message.
struct Master {
  Fd port{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address = {};

  Master() {
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(bind(port.get(), any, size) == 0);
    REQUIRE(listen(port.get(), 8) == 0);
    REQUIRE(getsockname(port.get(), any, &size) == 0);
  }

  FinalMessage::Route route() const {
    return {{reinterpret_cast<const char*>(&address), sizeof address}, {}};
  }

  std::string received() const {
    const Fd line(accept(port.get(), nullptr, nullptr));
    std::array<char, 100> bytes = {};
    const ssize_t size = recv(line.get(), bytes.data(), bytes.size(), MSG_WAITALL);
    return {bytes.data(), size > 0 ? static_cast<size_t>(size) : 0};
  }
};

/// Sends it; returns whether it was composed.
bool send(const FinalMessage& message) {
  bool composed = false;
  message.send(
      [&](const std::string& subject, const std::string& how) -> FinalMessage::Talk {
        composed = true;
        const std::string text = subject + " " + how;
        return [text](std::string_view) { return FinalMessage::Turn{text}; };
      },
      "was killed");
  return composed;
}

TEST_CASE("the final message is the one set last, unless it was cleared or is too long") {
  const Master master;
  static FinalMessage message;  // zeros
  CHECK_FALSE(send(message));
  message.set(master.route(), "first");
  message.set(master.route(), "second");
  CHECK(send(message));
  CHECK(master.received() == "second was killed");
  message.clear();
  CHECK_FALSE(send(message));
  message.set(master.route(), std::string(512, 's'));
  CHECK(send(message));
  message.set(master.route(), std::string(513, 's'));
  CHECK_FALSE(send(message));
}

}  // namespace
}  // namespace ddprun::launcher
