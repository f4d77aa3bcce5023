// SPDX-License-Identifier: Apache-2.0
#include "store/owner_lookup.h"

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>

#include "base/fd.h"
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

/// Whether the kernel has the module that lists TCP sockets: asked for all of them, it returns one.
bool kernel_lists_sockets() {
  struct {
    nlmsghdr header{};
    inet_diag_req_v2 body{};
  } question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  question.body.sdiag_family = AF_INET;
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0U;
  const ddprun::Fd netlink(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  std::array<char, 65'536> reply{};
  nlmsghdr first{};
  if (!netlink || send(netlink.get(), &question, sizeof question, 0) < 0 ||
      recv(netlink.get(), reply.data(), reply.size(), 0) < static_cast<ssize_t>(sizeof first)) {
    return false;
  }
  std::memcpy(&first, reply.data(), sizeof first);
  return first.nlmsg_type == SOCK_DIAG_BY_FAMILY;
}

}  // namespace

TEST_CASE("the kernel tells who owns a connection") {
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

TEST_CASE("a kernel that lists sockets is asked, and its table is not read") {
  Connection connection;
  if (!kernel_lists_sockets()) return;
  OwnerLookup owners(connection.io.get_executor());
  const auto owner = owners.at_once(connection.ends());
  REQUIRE(owner);
  CHECK(*owner == SocketOwner{Kind::ours});
  SocketEnds other = connection.ends();
  other.to_port = 1;
  const auto nobody = owners.at_once(other);
  REQUIRE(nobody);
  CHECK(*nobody == SocketOwner{Kind::none});
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

TEST_CASE("an address has no zone, and an IPv4 address no IPv6 around it") {
  using boost::asio::ip::make_address;
  CHECK(address_text(make_address("fe80::1%1")) == "fe80::1");
  CHECK(address_text(make_address("fd09::1")) == "fd09::1");
  CHECK(address_text(make_address("::ffff:10.0.0.1")) == "10.0.0.1");
}
