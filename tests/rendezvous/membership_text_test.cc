// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership_text.h"

#include "rendezvous/round/round.h"
#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

TEST_CASE("a host's name stays on its line, whatever it is") {
  RoundSpec spec;
  spec.min_nodes = spec.max_nodes = 2;
  Round round(spec);
  JoinRequest request;
  request.host = "gpu\n-07\x1b[2J" + std::string(10'000, 'x');
  round.join(1, request, {});
  const std::string text = round.waiting_for();
  CHECK(text.starts_with("1 of 2 nodes: have gpu -07\\x1b[2Jxxx"));
  CHECK(text.find('\n') == std::string::npos);
  CHECK(text.size() < 500);
}

TEST_CASE("repeated losses are counted in words") {
  CHECK(repeated_loss_text(2) == "2nd time within 10 min of its return");
  CHECK(repeated_loss_text(3).starts_with("3rd "));
  CHECK(repeated_loss_text(4).starts_with("4th "));
  CHECK(repeated_loss_text(11).starts_with("11th "));
  CHECK(repeated_loss_text(12).starts_with("12th "));
  CHECK(repeated_loss_text(21).starts_with("21st "));
  CHECK(repeated_loss_text(112).starts_with("112th "));
}

}  // namespace
}  // namespace ddprun::rendezvous
