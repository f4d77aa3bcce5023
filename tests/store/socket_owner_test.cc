// SPDX-License-Identifier: Apache-2.0
#include "store/socket_owner.h"

#include "tests/catch.h"

using namespace ddprun::store;
using Kind = SocketOwner::Kind;

TEST_CASE("a connection belongs to this user, to root, or to another user") {
  CHECK(owner_of({{1000, 77}}, 1000) == SocketOwner{Kind::ours});
  CHECK(owner_of({{0, 77}}, 1000) == SocketOwner{Kind::ours});
  CHECK(owner_of({{1001, 77}}, 1000) == SocketOwner{Kind::foreign, 1001});
  CHECK(owner_of({{1001, 77}}, 0) == SocketOwner{Kind::foreign, 1001});
  CHECK(owner_of({}, 1000) == SocketOwner{Kind::none});
}

TEST_CASE("a closed connection that counts as root's belongs to nobody") {
  CHECK(owner_of({{0, 0}}, 1000) == SocketOwner{Kind::none});
  CHECK(owner_of({{0, 0}}, 0) == SocketOwner{Kind::none});
  CHECK(owner_of({{1000, 0}}, 1000) == SocketOwner{Kind::ours});
  CHECK(owner_of({{1001, 0}}, 1000) == SocketOwner{Kind::foreign, 1001});
}

TEST_CASE("connections with the same ends are foreign if any belongs to another user") {
  CHECK(owner_of({{1000, 77}, {1001, 78}}, 1000) == SocketOwner{Kind::foreign, 1001});
  CHECK(owner_of({{1001, 78}, {1000, 77}}, 1000) == SocketOwner{Kind::foreign, 1001});
  CHECK(owner_of({{1000, 77}, {0, 0}}, 1000) == SocketOwner{Kind::ours});
  CHECK(owner_of({{0, 0}, {0, 0}}, 1000) == SocketOwner{Kind::none});
}

TEST_CASE("a user id that a namespace gives to all others does not tell users apart") {
  const auto everyone = "         0          0 4294967295\n";
  const auto container = "         0     100000      65534\n";
  CHECK(is_distinct(1000, 65534, container));
  CHECK(is_distinct(65534, 65534, everyone));
  CHECK_FALSE(is_distinct(65534, 65534, container));
  CHECK(is_distinct(65534, 65534, std::string(container) + "     65534       1000          1\n"));
  CHECK_FALSE(is_distinct(65534, 65534, ""));
}

TEST_CASE("a connection is found in the kernel's table by both of its ends") {
  const std::string table =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 "
      "11 1 0000000000000000 100 0 0 10 0\n"
      "   1: 0100007F:733C 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 "
      "12 1 0000000000000000 20 4 30 10 -1\n"
      "   2: 0100007F:C350 0100007F:733C 01 00000000:00000000 02:000A7214 00000000  1234        0 "
      "13 2 0000000000000000 20 4 24 10 -1\n"
      "   3: 0000000000000000FFFF00000100007F:C351 0000000000000000FFFF00000100007F:733C 01 "
      "00000000:00000000 00:00000000 00000000  1235        0 14 1 0000000000000000 20 4 30 10 -1\n"
      "   4: 000009FD000000000000000002000000:C352 000009FD000000000000000001000000:733C 06 "
      "00000000:00000000 03:000012F6 00000000     0        0 0 3 0000000000000000\n"
      "   5: 000080FE000000000000000002000000:C353 000080FE000000000000000001000000:733C 01 "
      "00000000:00000000 00:00000000 00000000  1236        0 15 1 0000000000000000 20 4 30 10 -1\n"
      "   6: 000080FE000000000000000002000000:C353 000080FE000000000000000001000000:733C 01 "
      "00000000:00000000 00:00000000 00000000  1237        0 16 1 0000000000000000 20 4 30 10 -1\n";
  const auto found = [&](const SocketEnds& ends) { return find_in_table(table, ends); };
  const auto only = [&](const SocketEnds& ends) {
    REQUIRE(found(ends).size() == 1);
    return found(ends).front();
  };
  CHECK(only({"127.0.0.1", 50'000, "127.0.0.1", 29'500}).uid == 1234);
  CHECK(only({"127.0.0.1", 50'000, "127.0.0.1", 29'500}).inode == 13);
  CHECK(only({"127.0.0.1", 50'001, "127.0.0.1", 29'500}).uid == 1235);
  CHECK(only({"fd09::2", 50'002, "fd09::1", 29'500}).inode == 0);
  const auto both = found({"fe80::2", 50'003, "fe80::1", 29'500});
  REQUIRE(both.size() == 2);
  CHECK(both[0].uid == 1236);
  CHECK(both[1].uid == 1237);
  CHECK(found({"127.0.0.1", 50'003, "127.0.0.1", 29'500}).empty());
  CHECK(found({"127.0.0.2", 50'000, "127.0.0.1", 29'500}).empty());
  CHECK(found({"", 0, "", 0}).empty());
}
