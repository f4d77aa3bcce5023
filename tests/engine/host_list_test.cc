// SPDX-License-Identifier: Apache-2.0
#include "engine/host_list.h"

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

namespace ddprun::engine {
namespace {

TEST_CASE("a host list has ranges, leading zeros, several brackets in a name and plain names") {
  const auto [text, hosts] = GENERATE(table<std::string, Hosts>({
      {"login", {"login"}},
      {"a,b,a", {"a", "b", "a"}},
      {"node[1-3]", {"node1", "node2", "node3"}},
      {"node[08-10,12]", {"node08", "node09", "node10", "node12"}},
      {"n[001,003-4]-ib", {"n001-ib", "n003-ib", "n004-ib"}},
      {"rack[0-1]_blade[2-3],x",
       {"rack0_blade2", "rack0_blade3", "rack1_blade2", "rack1_blade3", "x"}},
      {"r[1-2]n[1-2]c[0]", {"r1n1c0", "r1n2c0", "r2n1c0", "r2n2c0"}},
      {"[1-2]", {"1", "2"}},
      {"node[9-10]", {"node9", "node10"}},
      {"gpu-1.cluster,gpu-2.cluster", {"gpu-1.cluster", "gpu-2.cluster"}},
  }));
  INFO(text);
  CHECK(must(expand_host_list(text)) == hosts);
}

TEST_CASE("an invalid host list is an error, and no list fills the memory") {
  const std::string text = GENERATE(values<std::string>({"",
                                                         ",",
                                                         "a,",
                                                         ",a",
                                                         "a,,b",
                                                         "n[",
                                                         "n[]",
                                                         "n[1",
                                                         "n]",
                                                         "n[1-]",
                                                         "n[-1]",
                                                         "n[2-1]",
                                                         "n[1,]",
                                                         "n[a]",
                                                         "n[1-2-3]",
                                                         "a b",
                                                         "n[0-999999999]",
                                                         "n[0-99999]x[0-99999]",
                                                         "n[1234567890]",
                                                         "n[0-9][0-9][0-9][0-9][0-9][0-9]"}));
  INFO(text);
  const auto hosts = expand_host_list(text);
  REQUIRE_FALSE(hosts.has_value());
  CHECK(hosts.error().code == Errc::usage);
  CHECK(tests::contains(hosts.error().message, "'" + text + "'"));
}

TEST_CASE("counts may be repeated") {
  CHECK(must(expand_counts("1")) == std::vector{1});
  CHECK(must(expand_counts("4(x2),3")) == std::vector{4, 4, 3});
  CHECK(must(expand_counts("8(x3)")) == std::vector{8, 8, 8});
  for (const char* text : {"", "x", "1,", "1(x)", "1(x0)", "1(2)", "(x2)", "1(x2", "1(x999999999)",
                           "-1", "1(x131072),1"}) {
    INFO(text);
    CHECK_FALSE(expand_counts(text).has_value());
  }
}

TEST_CASE("each host of a hostfile is listed once, in order, however many lines it has") {
  CHECK(must(hosts_of_lines("b\nb\na\nb\n\n a \n")) == Hosts{"b", "a"});
  CHECK(must(hosts_of_table("b 4 all.q@b UNDEFINED\na 4 all.q@a <NULL>\n")) == Hosts{"b", "a"});
  CHECK(must(hosts_of_pairs("b 4 a 8 b 1")) == Hosts{"b", "a"});
  CHECK_FALSE(hosts_of_lines("\n\n").has_value());
  CHECK_FALSE(hosts_of_lines("a b\n").has_value());
  CHECK_FALSE(hosts_of_table("a\n").has_value());
  CHECK_FALSE(hosts_of_table("a many all.q@a\n").has_value());
  CHECK_FALSE(hosts_of_pairs("a 4 b").has_value());
  CHECK_FALSE(hosts_of_pairs("a b").has_value());
}

TEST_CASE("a short name is the same host as the long one") {
  CHECK(is_same_host("gpu-07", "gpu-07"));
  CHECK(is_same_host("gpu-07", "GPU-07.cluster"));
  CHECK(is_same_host("gpu-07.cluster", "gpu-07"));
  CHECK_FALSE(is_same_host("gpu-07.one", "gpu-07.two"));
  CHECK_FALSE(is_same_host("gpu-07", "gpu-070"));
}

}  // namespace
}  // namespace ddprun::engine
