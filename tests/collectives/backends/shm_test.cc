// SPDX-License-Identifier: Apache-2.0
// Ranks in shared memory. These tests run the parts in threads, so that the thread sanitizer sees
// the order of their accesses. Tests of the collectives use whole groups in shared memory.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/offer.h"
#include "collectives/backends/shm/rounds.h"
#include "tests/catch.h"
#include "tests/collectives/backends/again.h"
#include "tests/collectives/backends/file_limit.h"

namespace ddprun::tests {
namespace {

using ddp::internal::Call;
using ddp::internal::kShmAhead;
using ddp::internal::offer_of;
using ddp::internal::open_offer;
using ddp::internal::ShmArena;
using ddp::internal::ShmHeap;
using ddp::internal::ShmMismatch;
using ddp::internal::ShmOffer;
using ddp::internal::ShmPlace;
using ddp::internal::ShmRounds;
using ddp::internal::ShmStopped;

ShmArena arena_of(int ranks) {
  auto arena = ShmArena::map(ShmArena::create(ranks), ranks, 0);
  REQUIRE(arena);
  return std::move(*arena);
}

/// Plays rounds of one rank; returns how many bytes differ from those that the others showed.
int play(ShmRounds& rounds, int rank, int size, int count) {
  int wrong = 0;
  for (int round = 1; round <= count; ++round) {
    const std::size_t bytes = static_cast<std::size_t>(round) % 200 + 1;
    std::fill_n(rounds.out(bytes), bytes, static_cast<char>(round + rank));
    rounds.exchange({.number = static_cast<std::uint64_t>(round)}, bytes);
    for (int other = 0; other < size; ++other) {
      const char* const data = rounds.data_of(other, rounds.longest_of(other));
      for (std::size_t i = 0; i < rounds.longest_of(other); ++i) {
        if (data[i] != static_cast<char>(round + other)) ++wrong;
      }
    }
  }
  return wrong;
}

/// The same for data that goes one way, from each rank by turns, with some rounds in which all wait
/// for all. Some data is too long for a slot.
int play_one_way(ShmRounds& rounds, int rank, int size, int count) {
  int wrong = 0;
  for (int round = 1; round <= count; ++round) {
    const std::size_t bytes = round % 31 == 0 ? 5000 : static_cast<std::size_t>(round) % 300 + 1;
    const Call call = {.number = static_cast<std::uint64_t>(round)};
    const auto byte = static_cast<char>(round * 7);
    const int from = round / 20 % size;
    if (rank == from) std::fill_n(rounds.out(bytes), bytes, byte);
    if (bytes > ddp::internal::kShmShort) {
      rounds.exchange(call, 0);
    } else {
      rank == from ? rounds.send(call, ShmRounds::kToAll) : rounds.receive(call, from);
    }
    const char* const data = rounds.data_of(from, bytes);
    wrong +=
        static_cast<int>(bytes - static_cast<std::size_t>(std::count(data, data + bytes, byte)));
  }
  return wrong;
}

/// The round after one in which two ranks sent.
enum class Next { exchange, send, receive, long_data };

void begin(Next next, ShmRounds& rounds, std::uint64_t number, int other) {
  if (next == Next::exchange) rounds.exchange({.number = number}, 0);
  if (next == Next::send) rounds.send({.number = number}, ShmRounds::kToAll);
  if (next == Next::receive) rounds.receive({.number = number}, other);
  if (next == Next::long_data) rounds.out(1000);
}

/// The numbers of the calls that differ, if a round of this rank finds some.
template <class Round>
std::optional<std::pair<std::uint64_t, std::uint64_t>> mismatch_in(Round round) {
  try {
    round();
  } catch (const ShmMismatch& found) {
    return std::pair(found.ours.number, found.theirs.number);
  }
  return std::nullopt;
}

}  // namespace

TEST_CASE("in every round each rank sees what the others showed in it") {
  const int size = GENERATE(1, 2, 3);
  const bool spins = GENERATE(true, false);
  const ShmArena arena = arena_of(size);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      ShmRounds rounds(arena.members(), rank, size, spins);
      wrong += play(rounds, rank, size, 500);
    });
  }
  ranks.clear();
  CHECK(wrong == 0);
}

TEST_CASE("data that goes one way is what its rank showed, however far ahead that rank is") {
  const int size = GENERATE(2, 3);
  const bool spins = GENERATE(true, false);
  const ShmArena arena = arena_of(size);
  std::atomic<int> wrong = 0;
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      ShmRounds rounds(arena.members(), rank, size, spins);
      wrong += play_one_way(rounds, rank, size, 1000);
    });
  }
  ranks.clear();
  CHECK(wrong == 0);
}

TEST_CASE("a rank whose data goes one way waits when it is kShmAhead rounds ahead") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  ShmRounds theirs(arena.members(), 1, 2, false);
  for (std::uint64_t round = 1; round <= kShmAhead; ++round) {
    CHECK(ours.can_begin());
    *ours.out(1) = static_cast<char>(round);
    ours.send({.number = round}, 1);
  }
  CHECK_FALSE(ours.can_begin());
  std::atomic<bool> goes_on = false;
  std::jthread next([&] {
    ours.send({.number = kShmAhead + 1}, 1);
    goes_on = true;
  });
  while (arena.members()[0].waits_for != 2) std::this_thread::yield();
  CHECK_FALSE(goes_on);
  for (std::uint64_t round = 1; round <= kShmAhead; ++round) {
    CHECK(theirs.is_ahead(0, 1));
    theirs.receive({.number = round}, 0);
    CHECK(*theirs.data_of(0, 1) == static_cast<char>(round));
  }
  next.join();
  CHECK(ours.can_begin());
}

TEST_CASE("if two ranks sent in different calls, the next round of either finds that") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  ShmRounds theirs(arena.members(), 1, 2, false);
  ours.send({.number = 1}, ShmRounds::kToAll);
  theirs.send({.number = 9}, 0);
  const auto next = GENERATE(Next::exchange, Next::send, Next::receive, Next::long_data);
  CHECK(mismatch_in([&] { begin(next, ours, 2, 1); }) ==
        std::pair<std::uint64_t, std::uint64_t>(1, 9));
  CHECK(mismatch_in([&] { begin(next, theirs, 2, 0); }) ==
        std::pair<std::uint64_t, std::uint64_t>(9, 1));
}

TEST_CASE("if several ranks sent to one, the next round of that one finds that it sent, too") {
  const ShmArena arena = arena_of(3);
  ShmRounds root(arena.members(), 0, 3, false);
  ShmRounds first(arena.members(), 1, 3, false);
  ShmRounds second(arena.members(), 2, 3, false);
  for (std::uint64_t round = 1; round <= 3; ++round) {
    first.send({.number = round}, 0);
    second.send({.number = round}, 0);
  }
  root.send({.number = 9}, ShmRounds::kToAll);
  CHECK(mismatch_in([&] { first.send({.number = 4}, 0); }) ==
        std::pair<std::uint64_t, std::uint64_t>(1, 9));
}

TEST_CASE("a reader whose call differs from the sender's finds that first, the sender later") {
  const int size = GENERATE(2, 3);
  const ShmArena arena = arena_of(size);
  ShmRounds ours(arena.members(), 0, size, false);
  ShmRounds theirs(arena.members(), 1, size, false);
  for (std::uint64_t round = 1; round <= kShmAhead; ++round) {
    ours.send({.number = round, .count = 4}, ShmRounds::kToAll);
  }
  theirs.receive({.number = 1, .count = 4}, 0);
  CHECK(mismatch_in([&] { theirs.receive({.number = 2, .count = 5}, 0); }).has_value());
  CHECK(mismatch_in([&] { ours.send({.number = kShmAhead + 1}, ShmRounds::kToAll); }) ==
        std::pair<std::uint64_t, std::uint64_t>(2, 2));
}

TEST_CASE("a rank that need not wait notices that another was lost") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  ShmRounds theirs(arena.members(), 1, 2, false);
  ours.send({.number = 1}, 1);
  ours.stop(1);
  CHECK_THROWS_AS(ours.send({.number = 2}, 1), ShmStopped);
  theirs.stop(0);
  theirs.receive({.number = 1}, 0);  // shown before
  CHECK_THROWS_AS(theirs.receive({.number = 2}, 0), ShmStopped);
}

TEST_CASE("a round with its data ends well after a rank was lost, and the next one fails") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  std::jthread other([&] { ShmRounds(arena.members(), 1, 2, false).exchange({.number = 7}, 0); });
  while (arena.members()[1].slots[1].round != 1) std::this_thread::yield();
  ours.stop(1);
  ours.stop(0);  // only the first counts
  ours.exchange({.number = 7}, 0);
  std::optional<int> lost;
  try {
    ours.exchange({.number = 8}, 0);
  } catch (const ShmStopped& stopped) {
    lost = stopped.rank;
  }
  CHECK(lost == 1);
}

TEST_CASE("a rank that stops itself begins no round, even if it need not wait") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  ShmRounds theirs(arena.members(), 1, 2, false);
  std::jthread other([&] {
    theirs.exchange({}, 0);
    try {
      theirs.exchange({}, 0);
    } catch (const ShmStopped&) {
    }
  });
  ours.exchange({}, 0);
  while (arena.members()[1].slots[2].round != 2) std::this_thread::yield();
  ours.stop(0);
  CHECK_THROWS_AS(ours.exchange({}, 0), ShmStopped);
  theirs.stop(0);
}

TEST_CASE("a rank that waits for another can be stopped at any time") {
  const bool spins = GENERATE(true, false);
  for (int i = 0; i < 50; ++i) {
    const ShmArena arena = arena_of(2);
    ShmRounds rounds(arena.members(), 0, 2, spins);
    std::atomic<int> stopped_by = -1;
    std::jthread waiting([&] {
      try {
        rounds.exchange({}, 0);
      } catch (const ShmStopped& stopped) {
        stopped_by = stopped.rank;
      }
    });
    // Sometimes before it waits, sometimes just as it begins.
    while (i % 2 == 0 && arena.members()[0].waits_for != 2) std::this_thread::yield();
    rounds.stop(1);
    waiting.join();
    CHECK(stopped_by == 1);
  }
}

TEST_CASE("a call that a rank showed counts, even if the rank was lost before it woke others") {
  const ShmArena arena = arena_of(2);
  ShmRounds rounds(arena.members(), 0, 2, false);
  std::atomic<bool> stopped = false;
  std::jthread waiting([&] {
    try {
      rounds.exchange({}, 0);
    } catch (const ShmStopped&) {
      stopped = true;
    }
  });
  while (arena.members()[0].waits_for != 2) std::this_thread::yield();
  arena.members()[1].slots[1].call = {};
  arena.members()[1].slots[1].round = 1;
  rounds.stop(1);
  waiting.join();
  CHECK_FALSE(stopped);
}

TEST_CASE("a rank that works between two rounds notices a lost rank, unless that one is done") {
  const ShmArena arena = arena_of(3);
  ShmRounds ours(arena.members(), 0, 3, false);
  CHECK_NOTHROW(ours.check_stopped());
  ours.stop(1);
  CHECK_THROWS_AS(ours.check_stopped(), ShmStopped);
  arena.members()[1].slots[1].round = 1;
  CHECK_THROWS_AS(ours.check_stopped(), ShmStopped);  // rank 2 is not done
  arena.members()[2].slots[1].round = 1;
  CHECK_NOTHROW(ours.check_stopped());
}

TEST_CASE("data that a rank writes to a region is read by others at the same place of theirs") {
  const std::size_t bytes = GENERATE(1, 5000, (6U << 20) + 100);  // the last one has huge pages
  const Fd memory = ShmArena::create(2);
  const auto first = ShmArena::map(again(memory), 2, 0);
  const auto second = ShmArena::map(again(memory), 2, 1);
  REQUIRE((first && second));
  ShmHeap ours(*first, 0);
  ShmHeap theirs(*second, 1);
  CHECK_FALSE(ours.is_used());
  for (int round = 0; round < 2; ++round) {
    const auto mine = ours.take(bytes);
    const auto other = theirs.take(bytes);
    REQUIRE((mine && other));
    auto out = ours.use(mine);
    auto in = theirs.use(other);
    CHECK(ours.is_used());
    char* const last = static_cast<char*>(out.get()) + bytes - 1;
    CHECK(*last == 0);
    *last = 7;
    const ShmPlace place = theirs.find(static_cast<char*>(in.get()) + bytes - 1, 1);
    CHECK(place.number() != 0);
    CHECK(place.number() == ours.find(last, 1).number());
    CHECK(*place.of(0) == 7);
    CHECK(*place.of(1) == 0);
    CHECK(ours.find(last, 8192).number() == 0);  // the region ends before
    CHECK(ours.find(&round, sizeof(round)).number() == 0);

    const std::uint64_t position = ours.position_of(last, 1);
    CHECK(theirs.position_of(static_cast<char*>(in.get()) + bytes - 1, 1) != position);
    REQUIRE(theirs.at(position, 1));
    CHECK(*theirs.at(position, 1) == 7);
    CHECK_FALSE(theirs.at(position, 8192));  // outside of that rank's part
    CHECK_FALSE(theirs.at(~position, 1));
    CHECK(ours.position_of(&round, sizeof(round)) == 0);
  }
  CHECK(ours.find(nullptr, 0).number() == 0);
}

TEST_CASE("a region that is no longer used is given back, and is not found any more") {
  const Fd memory = ShmArena::create(1);
  const auto arena = ShmArena::map(again(memory), 1, 0);
  REQUIRE(arena);
  ShmHeap heap(*arena, 0);
  const auto blocks = [&] {
    struct stat status{};
    ::fstat(memory.get(), &status);
    return status.st_blocks;
  };
  const auto before = blocks();
  auto used = heap.use(heap.take(std::size_t{4} << 20));
  const void* const address = used.get();
  CHECK(blocks() >= before + (4 << 20) / 512);
  used.reset();
  CHECK(blocks() == before);
  CHECK(heap.find(address, 1).number() == 0);
  CHECK(heap.is_used());
}

TEST_CASE("a rank that may not have a region continues with the same places as others") {
  const Fd memory = ShmArena::create(2);
  const auto first = ShmArena::map(again(memory), 2, 0);
  const auto second = ShmArena::map(again(memory), 2, 1);
  REQUIRE((first && second));
  ShmHeap ours(*first, 0);
  ShmHeap theirs(*second, 1);
  CHECK(theirs.take(5000) != nullptr);
  {
    const FileLimit limit(first->bytes() + (2 << 20));
    CHECK(ours.take(5000) != nullptr);  // small enough
    CHECK(ours.take(std::size_t{3} << 20) == nullptr);
  }
  CHECK(theirs.take(std::size_t{3} << 20) != nullptr);
  CHECK(ours.take(~std::size_t{0} - 4095) == nullptr);
  CHECK(theirs.take(~std::size_t{0} - 4095) == nullptr);
  const auto mine = ours.use(ours.take(1));
  const auto other = theirs.use(theirs.take(1));
  CHECK(ours.find(mine.get(), 1).number() == theirs.find(other.get(), 1).number());
}

TEST_CASE("shared memory keeps its size, and other memory is not taken for it") {
  const Fd memory = ShmArena::create(2);
  REQUIRE(memory);
  CHECK(::ftruncate(memory.get(), 4096) != 0);
  CHECK_FALSE(ShmArena::map(again(memory), 3, 0));
  const auto one = ShmArena::map(again(memory), 2, 1);
  const auto same = ShmArena::map(again(memory), 2, 1);
  REQUIRE((one && same));
  CHECK(one->members() != same->members());
  CHECK(same->members()[1].bell == 0);
  one->members()[1].bell = 5;
  CHECK(same->members()[1].bell == 5);

  const Fd open(::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(open.get(), sizeof(ddp::internal::ShmMember)) == 0);
  CHECK_FALSE(ShmArena::map(again(open), 1, 0));
  CHECK_FALSE(ShmArena::map(Fd(), 1, 0));
}

TEST_CASE("a process whose files must be short makes no shared memory, and is not killed") {
  const FileLimit limit(64 << 10);
  CHECK_FALSE(ShmArena::create(2));
}

/// The exit code of a process that runs `action` as `user`, maybe this process's user.
template <class F>
int exit_code_as(uid_t user, F action) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::syscall(SYS_setresuid, user, user, user) == 0 ? action() : 99);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WEXITSTATUS(status);
}

TEST_CASE("memory is found among the open files of a process of the same user") {
  Fd memory = ShmArena::create(2);
  const ShmOffer offer = offer_of(memory);
  const auto one = ShmArena::map(again(memory), 2, 0);
  REQUIRE(one);
  CHECK(exit_code_as(::geteuid(), [&] {
          const auto same = ShmArena::map(open_offer(offer), 2, 1);
          if (same) same->members()[0].bell = 7;
          return same ? 0 : 1;
        }) == 0);
  CHECK(one->members()[0].bell == 7);
  for (const ShmOffer& wrong : {ShmOffer{}, offer_of(Fd()),
                                [&] {
                                  auto no = offer;
                                  return ++no.inode, no;
                                }(),
                                [&] {
                                  auto no = offer;
                                  return ++no.user, no;
                                }(),
                                [&] {
                                  auto no = offer;
                                  return no.process = 1, no;
                                }()}) {
    CHECK_FALSE(open_offer(wrong));
  }
  memory.reset();
  CHECK_FALSE(open_offer(offer));
}

TEST_CASE("another user cannot open a process's memory, whichever user it claims to be") {
  if (::geteuid() != 0) return;
  constexpr uid_t kOther = 54'321;
  const Fd memory = ShmArena::create(2);
  ShmOffer offer = offer_of(memory);
  offer.user = kOther;
  CHECK(exit_code_as(kOther, [&] { return open_offer(offer) ? 1 : 0; }) == 0);
}

}  // namespace ddprun::tests
