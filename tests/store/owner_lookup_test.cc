// SPDX-License-Identifier: Apache-2.0
#include "store/owner_lookup.h"

#include <fstream>
#include <iterator>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "tests/catch.h"

using namespace ddprun::store;
using boost::asio::ip::tcp;
using Kind = SocketOwner::Kind;

namespace {

/// A connection within this process.
struct Connection {
  explicit Connection(const std::string& listen = "127.0.0.1",
                      const std::string& connect = "127.0.0.1")
      : acceptor(io), from(io), to(io) {
    const tcp::endpoint at(boost::asio::ip::make_address(listen), 0);
    acceptor.open(at.protocol());
    if (at.address().is_v6()) acceptor.set_option(boost::asio::ip::v6_only(false));
    acceptor.bind(at);
    acceptor.listen();
    from.connect({boost::asio::ip::make_address(connect), acceptor.local_endpoint().port()});
    acceptor.accept(to);
  }

  SocketEnds ends() const { return ends_of(to); }

  boost::asio::io_context io;
  tcp::acceptor acceptor;
  tcp::socket from;
  tcp::socket to;
};

std::string table() {
  std::string text;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(path);
    text.append(std::istreambuf_iterator<char>(file), {});
  }
  return text;
}

}  // namespace

TEST_CASE("the kernel tells whose a connection is") {
  Connection connection;
  OwnerLookup owners(connection.io.get_executor());
  std::vector<SocketOwner> found;
  SocketEnds other = connection.ends();
  other.to_port = 1;
  SocketEnds listener = connection.ends();
  std::swap(listener.from, listener.to);
  listener.from_port = listener.to_port;
  owners.look_up({connection.ends(), other, listener}, [&](const auto& owner) { found = owner; });
  connection.io.run_for(std::chrono::seconds(found.empty() ? 30 : 0));
  REQUIRE(found.size() == 3);
  CHECK(found[0] == SocketOwner{Kind::ours});
  CHECK(found[1] == SocketOwner{Kind::none});
  CHECK(found[2] == SocketOwner{Kind::none});
}

TEST_CASE("a connection from IPv4 to a port of IPv6 is found by its IPv4 addresses") {
  Connection connection("::", "127.0.0.1");
  OwnerLookup owners(connection.io.get_executor());
  const auto owner = owners.at_once(connection.ends());
  if (owner) CHECK(*owner == SocketOwner{Kind::ours});
  CHECK(connection.ends().from == "127.0.0.1");
}

TEST_CASE("the kernel's table has the same answer") {
  Connection connection;
  const KernelSockets found = find_in_table(table(), connection.ends());
  REQUIRE(found.size() == 1);
  struct stat about{};
  REQUIRE(fstat(connection.from.native_handle(), &about) == 0);
  CHECK(found.front().inode == about.st_ino);
  CHECK(found.front().uid == about.st_uid);
}

TEST_CASE("an address has no zone, and that of IPv4 no IPv6 around it") {
  using boost::asio::ip::make_address;
  CHECK(address_text(make_address("fe80::1%1")) == "fe80::1");
  CHECK(address_text(make_address("fd09::1")) == "fd09::1");
  CHECK(address_text(make_address("::ffff:10.0.0.1")) == "10.0.0.1");
}
