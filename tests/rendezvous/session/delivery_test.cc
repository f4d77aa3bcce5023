// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/session/delivery.h"

#include <string>

#include "tests/catch.h"

namespace ddprun::rendezvous {
namespace {

using Frames = std::deque<std::string>;

TEST_CASE("messages are kept in order until the other end has counted them") {
  Delivery<std::string> delivery;
  for (const char* frame : {"a", "b", "c"}) delivery.add(frame);
  delivery.ack(2);
  CHECK(delivery.unacked() == Frames{"c"});
  delivery.ack(1);  // an old count
  CHECK(delivery.unacked() == Frames{"c"});
  delivery.ack(9);  // more than there ever were
  delivery.add("d");
  CHECK(delivery.unacked() == Frames{"d"});
  delivery.ack(4);
  CHECK(delivery.unacked().empty());
}

TEST_CASE("a resumed session ignores repetitions of messages after the report") {
  Delivery<std::string> delivery;
  CHECK(delivery.receive());
  CHECK(delivery.report() == 1);
  CHECK(delivery.receive());
  CHECK(delivery.receive());
  CHECK(delivery.reported() == 1);
  delivery.resume();
  CHECK_FALSE(delivery.receive());
  CHECK_FALSE(delivery.receive());
  CHECK(delivery.receive());
  CHECK(delivery.received() == 4);
}

}  // namespace
}  // namespace ddprun::rendezvous
