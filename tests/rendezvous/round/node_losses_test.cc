// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/round/node_losses.h"

#include <chrono>

#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

JoinRequest from(const std::string& host, std::optional<int> node_rank = {}) {
  JoinRequest request;
  request.host = host;
  request.node_rank = node_rank;
  return request;
}

constexpr NodeLosses::Time at(std::chrono::seconds time) {
  return NodeLosses::Time{} + time;
}

TEST_CASE("a node that is lost again soon after each return is held back for twice as long") {
  NodeLosses losses;
  NodeId node = 1;
  std::chrono::seconds now{0};
  CHECK(losses.joined(node, from("a"), at(now)) == seconds(0));
  for (int loss = 1; loss <= 12; ++loss) {
    now += minutes(10);
    CHECK(losses.lost(node, at(now)) == loss);
    const auto hold = seconds(loss == 1 ? 0 : std::min(1 << (loss - 2), 300));
    CHECK(losses.joined(++node, from("a"), at(now)) == hold);
    CHECK(losses.losses_before(node) == loss);
  }
  CHECK(losses.joined(++node, from("a"), at(now + seconds(299))) == seconds(1));
  CHECK(losses.joined(++node, from("a"), at(now + hours(1))) == seconds(0));
}

TEST_CASE("a node that stays for more than ten minutes has recovered") {
  NodeLosses losses;
  losses.joined(1, from("a"), at(seconds(0)));
  CHECK(losses.lost(1, at(seconds(1))) == 1);
  losses.joined(2, from("a"), at(seconds(2)));
  CHECK(losses.lost(2, at(seconds(602))) == 2);
  losses.joined(3, from("a"), at(seconds(603)));
  CHECK(losses.lost(3, at(seconds(1'204))) == 1);
}

TEST_CASE("a node is known by its host, and by its node rank if one is given") {
  NodeLosses losses;
  losses.joined(1, from("a", 0), at(seconds(0)));
  losses.joined(2, from("a", 1), at(seconds(0)));
  CHECK(losses.lost(1, at(seconds(1))) == 1);
  CHECK(losses.lost(2, at(seconds(1))) == 1);
  losses.joined(3, from("a", 1), at(seconds(2)));
  CHECK(losses.lost(3, at(seconds(3))) == 2);
  losses.joined(4, from("b", 1), at(seconds(4)));
  CHECK(losses.lost(4, at(seconds(5))) == 1);
}

TEST_CASE("several nodes of a host that are lost together are one loss") {
  NodeLosses losses;
  losses.joined(1, from("a"), at(seconds(0)));
  losses.joined(2, from("a"), at(seconds(0)));
  CHECK(losses.lost(1, at(seconds(1))) == 1);
  CHECK(losses.lost(2, at(seconds(1))) == 1);
  CHECK(losses.joined(3, from("a"), at(seconds(1))) == seconds(0));
  CHECK(losses.joined(4, from("a"), at(seconds(1))) == seconds(0));
  CHECK(losses.lost(3, at(seconds(1))) == 2);
  CHECK(losses.lost(4, at(seconds(1))) == 1);
}

TEST_CASE("a node that leaves, or is not known, is not lost") {
  NodeLosses losses;
  for (NodeId node = 1; node < 5; ++node) {
    CHECK(losses.joined(node, from("a"), at(seconds(0))) == seconds(0));
    losses.left(node);
    CHECK(losses.lost(node, at(seconds(1))) == 1);
    CHECK(losses.losses_before(node) == 0);
  }
}

TEST_CASE("a loss is forgotten after an hour, unless its node was lost again") {
  NodeLosses losses;
  losses.joined(1, from("a"), at(seconds(0)));
  losses.joined(2, from("b"), at(seconds(0)));
  losses.lost(1, at(seconds(0)));
  losses.lost(2, at(seconds(0)));
  losses.joined(3, from("b"), at(seconds(1)));
  losses.lost(3, at(minutes(10)));
  losses.joined(4, from("c"), at(minutes(61)));
  losses.lost(4, at(minutes(61)));
  losses.joined(5, from("a"), at(minutes(61)));
  losses.joined(6, from("b"), at(minutes(61)));
  CHECK(losses.losses_before(5) == 0);
  CHECK(losses.losses_before(6) == 2);
  losses.joined(7, from("d"), at(minutes(71)));
  losses.lost(7, at(minutes(71)));
  CHECK(losses.losses_before(6) == 0);
}

}  // namespace
}  // namespace ddprun::rendezvous
