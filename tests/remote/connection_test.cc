// SPDX-License-Identifier: Apache-2.0
#include "remote/connection.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <string>
#include <unistd.h>

#include <boost/asio/io_context.hpp>

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::remote {
namespace {

TEST_CASE("a host that reads nothing later gets few signs of life, and every signal") {
  boost::asio::io_context io{1};
  const HostSpec host{"b", "/bin/cat", {"cat"}, {}};
  const auto connection = must(Connection::open(io.get_executor(), host, nullptr));
  for (int i = 0; i < 5000; ++i) connection->send(0);
  connection->send(SIGTERM);
  io.poll();

  const Fd out = connection->take_out();
  std::string got;
  while (!got.ends_with(static_cast<char>(SIGTERM))) {
    std::array<char, 4096> bytes;
    const ssize_t size = read(out.get(), bytes.data(), bytes.size());
    REQUIRE(size > 0);
    got.append(bytes.data(), static_cast<size_t>(size));
  }
  const std::string order = encode(host.order);
  REQUIRE(got.starts_with(order));
  const auto signs = std::count(got.begin() + std::ssize(order), got.end(), '\0');
  CHECK(signs > 0);
  CHECK(signs < 2000);
}

}  // namespace
}  // namespace ddprun::remote
