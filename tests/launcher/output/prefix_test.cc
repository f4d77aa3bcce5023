// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/prefix.h"

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::launcher {
namespace {

PrefixFacts rank_5() {
  PrefixFacts facts;
  facts.rank = 5;
  facts.local_rank = 1;
  facts.node_rank = 2;
  facts.world_size = 8;
  facts.restart = 3;
  facts.host = "gpu-07";
  return facts;
}

TEST_CASE("the default prefix is the rank in brackets") {
  CHECK(must(expand_prefix(kDefaultPrefix, rank_5())) == "[5] ");
}

TEST_CASE("every macro of a prefix is replaced, also torchrun's") {
  CHECK(must(expand_prefix("[${role_name}${local_rank}]:", rank_5())) == "[default1]:");
  CHECK(must(expand_prefix("${rank}/${world_size} ${host} ${node_rank} ${restart}|", rank_5())) ==
        "5/8 gpu-07 2 3|");
}

TEST_CASE("text that is not a macro stays in the prefix") {
  CHECK(must(expand_prefix("$ {rank} } $rank 5$", rank_5())) == "$ {rank} } $rank 5$");
  CHECK(must(expand_prefix("", rank_5())).empty());
}

TEST_CASE("a prefix with an unknown or broken macro is refused with a list of the macros") {
  const std::string text = GENERATE(as<std::string>(), "${rnak} ", "${}", "${rank", "a\nb");
  const auto refused = expand_prefix(text, rank_5());
  REQUIRE(refused.has_error());
  CHECK(refused.error().code == Errc::usage);

  const std::string message = expand_prefix("x${rnak} ", rank_5()).error().message;
  CHECK(message.find("${rnak}") != message.npos);
  CHECK(message.find("${rank}, ${local_rank}") != message.npos);
}

TEST_CASE("the colour of a prefix depends on the rank, and an empty prefix stays empty") {
  CHECK(coloured_prefix("[0] ", 0) == "\033[36m[0] \033[0m");
  CHECK(coloured_prefix("[0] ", 0) != coloured_prefix("[0] ", 1));
  CHECK(coloured_prefix("", 3).empty());
}

}  // namespace
}  // namespace ddprun::launcher
