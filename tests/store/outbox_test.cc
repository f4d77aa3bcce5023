// SPDX-License-Identifier: Apache-2.0
#include "store/session.h"
#include "tests/catch.h"

using namespace ddprun::store;

namespace {

std::string take(Outbox& outbox, std::size_t size) {
  std::string taken;
  while (taken.size() < size) {
    std::string_view piece;
    REQUIRE(outbox.pieces(&piece, 1) == 1);
    piece = piece.substr(0, size - taken.size());
    taken += piece;
    outbox.drop(piece.size());
  }
  return taken;
}

}  // namespace

TEST_CASE("an outbox that is never quite empty frees sent bytes") {
  Outbox outbox;
  outbox.append("first");
  const std::string piece(10'000, 'x');
  for (int i = 0; i < 10'000; ++i) {
    outbox.append(piece);
    take(outbox, piece.size());
  }
  CHECK(outbox.size() == 5);
  CHECK(outbox.copied() < 200'000);
}

TEST_CASE("large values are held, and the held and copied bytes are counted") {
  Outbox outbox;
  const auto large = std::make_shared<const std::string>(100'000, 'v');
  outbox.append("ab");
  outbox.append(large);
  outbox.append(std::make_shared<const std::string>("cd"));
  CHECK(large.use_count() == 2);
  CHECK(outbox.copied() == 4);
  CHECK(outbox.memory() == 100'004);
  CHECK(take(outbox, 3) == "abv");
  CHECK(outbox.copied() == 2);
  CHECK(take(outbox, 99'999).back() == 'v');
  CHECK(large.use_count() == 1);
  CHECK(outbox.memory() == 2);
  CHECK(take(outbox, 2) == "cd");
  CHECK(outbox.memory() == 0);
}

TEST_CASE("one outbox is appended to another") {
  Outbox outbox, later;
  outbox.append("ab");
  later.append("cd");
  later.append(std::make_shared<const std::string>(10'000, 'v'));
  outbox.append(std::move(later));
  CHECK(outbox.memory() == 10'004);
  CHECK(take(outbox, 10'004) == "abcd" + std::string(10'000, 'v'));
}
