// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "rendezvous/secret/handshake_threads.h"
#include "tests/catch.h"

using ddprun::rendezvous::HandshakeQueue;

namespace {

std::string order_of(HandshakeQueue& queue) {
  std::string order;
  while (const auto number = queue.next()) order += std::to_string(*number) + " ";
  return order;
}

}  // namespace

TEST_CASE("handshakes of one address are begun in their order") {
  HandshakeQueue queue;
  CHECK(queue.is_empty());
  for (const unsigned number : {3, 1, 2}) queue.add(10, number);
  CHECK(!queue.is_empty());
  CHECK(order_of(queue) == "3 1 2 ");
  CHECK(queue.is_empty());
}

TEST_CASE("an address with many handshakes does not hold up the others") {
  HandshakeQueue queue;
  for (unsigned number = 0; number < 5; ++number) queue.add(10, number);
  queue.add(20, 100);
  queue.add(30, 200);
  CHECK(queue.next() == 0);
  CHECK(queue.next() == 100);
  queue.add(20, 101);  // an address that comes again waits behind the others
  CHECK(order_of(queue) == "200 1 101 2 3 4 ");
}
