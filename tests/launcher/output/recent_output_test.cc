// SPDX-License-Identifier: Apache-2.0
#include "launcher/output/recent_output.h"

#include "tests/catch.h"

using ddprun::launcher::RecentOutput;

TEST_CASE("recent output: the bytes after an offset are returned") {
  RecentOutput recent;
  CHECK(recent.after(0, 100).bytes.empty());
  recent.add("one\n");
  recent.add("two\n");
  CHECK(recent.end() == 8);
  CHECK(recent.after(0, 100).bytes == "one\ntwo\n");
  CHECK(recent.after(0, 3).bytes == "one");
  const RecentOutput::Piece piece = recent.after(4, 100);
  CHECK(piece.from == 4);
  CHECK(piece.bytes == "two\n");
  CHECK(recent.after(99, 100).from == 8);
  CHECK(recent.after(99, 100).bytes.empty());
}

TEST_CASE("recent output: the end is kept, whatever the sizes of the pieces") {
  for (const size_t size :
       {size_t{1}, size_t{1000}, RecentOutput::kKept, 3 * RecentOutput::kKept}) {
    RecentOutput recent;
    std::string all;
    while (all.size() < 4 * RecentOutput::kKept) {
      std::string piece(size, '.');
      for (size_t i = 0; i < size; ++i) piece[i] = static_cast<char>('a' + (all.size() + i) % 26);
      recent.add(piece);
      all += piece;
    }
    CHECK(recent.end() == all.size());
    const RecentOutput::Piece kept = recent.after(0, all.size());
    CHECK(kept.bytes.size() >= RecentOutput::kKept);
    CHECK(kept.bytes.size() <= 2 * RecentOutput::kKept);
    CHECK(kept.from + kept.bytes.size() == all.size());
    CHECK(all.ends_with(kept.bytes));
  }
}
