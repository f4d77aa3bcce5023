// SPDX-License-Identifier: Apache-2.0
// Ranks in shared memory: the parts here, in threads, so that the thread sanitizer sees the order
// of their accesses; whole groups in the tests of the collectives, which use it where they can.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fcntl.h>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/handover.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/other_memory.h"
#include "collectives/backends/shm/ring.h"
#include "collectives/backends/shm/rounds.h"
#include "tests/catch.h"

namespace ddprun::tests {
namespace {

using ddp::internal::is_marked;
using ddp::internal::MemoryMark;
using ddp::internal::MemoryPlace;
using ddp::internal::read_memory;
using ddp::internal::ShmArena;
using ddp::internal::ShmHeap;
using ddp::internal::ShmMeeting;
using ddp::internal::ShmOffer;
using ddp::internal::ShmPlace;
using ddp::internal::ShmRing;
using ddp::internal::ShmRounds;
using ddp::internal::ShmStopped;
using ddp::internal::ShmTaker;

constexpr auto kDeadline = std::chrono::seconds(30);
constexpr auto kIgnore = [](int /*rank*/) {};

ShmArena arena_of(int ranks) {
  auto arena = ShmArena::map(ShmArena::create(ranks), ranks, 0);
  REQUIRE(arena);
  return std::move(*arena);
}

/// For another rank.
Fd again(const Fd& memory) {
  return Fd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));
}

/// Where no other test, or run of it, has its socket.
ShmMeeting meeting(const std::string& name) {
  return {"ddp test of " + name + " " + std::to_string(::getpid()), 4711};
}

/// Rounds of one rank; returns how many bytes were not those that the others showed.
int play(ShmRounds& rounds, int rank, int size, int count) {
  int wrong = 0;
  for (int round = 1; round <= count; ++round) {
    const std::size_t bytes = static_cast<std::size_t>(round) % 200 + 1;
    std::fill_n(rounds.out(bytes), bytes, static_cast<char>(round + rank));
    rounds.exchange({.number = static_cast<std::uint64_t>(round)}, bytes, kIgnore);
    for (int other = 0; other < size; ++other) {
      if (rounds.call_of(other).number != static_cast<std::uint64_t>(round)) ++wrong;
      const char* const data = rounds.data_of(other, rounds.longest_of(other));
      for (std::size_t i = 0; i < rounds.longest_of(other); ++i) {
        if (data[i] != static_cast<char>(round + other)) ++wrong;
      }
    }
  }
  return wrong;
}

/// What wakes an end of a ring.
class Wakes {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    ++rung_;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return rung_ > 0; });
    rung_ = 0;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int rung_ = 0;
};

/// Limits the files that this process may write to, as long as it lives.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

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

TEST_CASE("a round whose data is there ends well after a rank was lost, the next one fails") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  std::jthread other(
      [&] { ShmRounds(arena.members(), 1, 2, false).exchange({.number = 7}, 0, kIgnore); });
  while (arena.members()[1].slots[1].round != 1) std::this_thread::yield();
  ours.stop(1);
  ours.stop(0);  // the first one counts
  ours.exchange({.number = 7}, 0, kIgnore);
  CHECK(ours.call_of(1).number == 7);
  std::optional<int> lost;
  try {
    ours.exchange({.number = 8}, 0, kIgnore);
  } catch (const ShmStopped& stopped) {
    lost = stopped.rank;
  }
  CHECK(lost == 1);
}

TEST_CASE("a rank that stops itself begins no round, also if it would not have to wait") {
  const ShmArena arena = arena_of(2);
  ShmRounds ours(arena.members(), 0, 2, false);
  ShmRounds theirs(arena.members(), 1, 2, false);
  std::jthread other([&] {
    theirs.exchange({}, 0, kIgnore);
    try {
      theirs.exchange({}, 0, kIgnore);
    } catch (const ShmStopped&) {
    }
  });
  ours.exchange({}, 0, kIgnore);
  while (arena.members()[1].slots[0].round != 2) std::this_thread::yield();
  ours.stop(0);
  CHECK_THROWS_AS(ours.exchange({}, 0, kIgnore), ShmStopped);
  theirs.stop(0);
}

TEST_CASE("a rank that waits for another is stopped at any time") {
  const bool spins = GENERATE(true, false);
  for (int i = 0; i < 50; ++i) {
    const ShmArena arena = arena_of(2);
    ShmRounds rounds(arena.members(), 0, 2, spins);
    std::atomic<int> stopped_by = -1;
    std::jthread waiting([&] {
      try {
        rounds.exchange({}, 0, kIgnore);
      } catch (const ShmStopped& stopped) {
        stopped_by = stopped.rank;
      }
    });
    // Now and then before it waits, or just as it begins to.
    while (i % 2 == 0 && arena.members()[0].waits_for != 2) std::this_thread::yield();
    rounds.stop(1);
    waiting.join();
    CHECK(stopped_by == 1);
  }
}

TEST_CASE("what a rank showed counts, also if it was lost before it woke those that sleep") {
  const ShmArena arena = arena_of(2);
  ShmRounds rounds(arena.members(), 0, 2, false);
  std::atomic<bool> stopped = false;
  std::jthread waiting([&] {
    try {
      rounds.exchange({}, 0, kIgnore);
    } catch (const ShmStopped&) {
      stopped = true;
    }
  });
  while (arena.members()[0].waits_for != 2) std::this_thread::yield();
  arena.members()[1].slots[1].round = 1;
  rounds.stop(1);
  waiting.join();
  CHECK_FALSE(stopped);
}

TEST_CASE("a rank that works between two rounds learns that another was lost, unless it is done") {
  const ShmArena arena = arena_of(3);
  ShmRounds ours(arena.members(), 0, 3, false);
  CHECK_NOTHROW(ours.check_stopped());
  ours.stop(1);
  CHECK_THROWS_AS(ours.check_stopped(), ShmStopped);
  arena.members()[1].slots[1].round = 1;
  CHECK_THROWS_AS(ours.check_stopped(), ShmStopped);  // rank 2 is not
  arena.members()[2].slots[1].round = 1;
  CHECK_NOTHROW(ours.check_stopped());
}

TEST_CASE("what a rank writes to a region the others read at the same place of theirs") {
  const std::size_t bytes = GENERATE(1, 5000, (6U << 20) + 100);  // the last with huge pages
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
    CHECK(ours.find(last, 8192).number() == 0);  // it ends before
    CHECK(ours.find(&round, sizeof(round)).number() == 0);

    const std::uint64_t position = ours.position_of(last, 1);
    CHECK(theirs.position_of(static_cast<char*>(in.get()) + bytes - 1, 1) != position);
    REQUIRE(theirs.at(position, 1));
    CHECK(*theirs.at(position, 1) == 7);
    CHECK_FALSE(theirs.at(position, 8192));  // out of the part of that rank
    CHECK_FALSE(theirs.at(~position, 1));
    CHECK(ours.position_of(&round, sizeof(round)) == 0);
  }
  CHECK(ours.find(nullptr, 0).number() == 0);
}

TEST_CASE("a region that is no longer used is given back, and found no more") {
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

TEST_CASE("a rank that may not have a region goes on with the same places as others") {
  const Fd memory = ShmArena::create(2);
  const auto first = ShmArena::map(again(memory), 2, 0);
  const auto second = ShmArena::map(again(memory), 2, 1);
  REQUIRE((first && second));
  ShmHeap ours(*first, 0);
  ShmHeap theirs(*second, 1);
  CHECK(theirs.take(5000) != nullptr);
  {
    const FileLimit limit(first->bytes() + (2 << 20));
    CHECK(ours.take(5000) != nullptr);  // it fits
    CHECK(ours.take(std::size_t{3} << 20) == nullptr);
  }
  CHECK(theirs.take(std::size_t{3} << 20) != nullptr);
  CHECK(ours.take(~std::size_t{0} - 4095) == nullptr);
  CHECK(theirs.take(~std::size_t{0} - 4095) == nullptr);
  const auto mine = ours.use(ours.take(1));
  const auto other = theirs.use(theirs.take(1));
  CHECK(ours.find(mine.get(), 1).number() == theirs.find(other.get(), 1).number());
}

TEST_CASE("shared memory keeps its size, and no other memory is taken for it") {
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

TEST_CASE("a process whose files must be short makes no shared memory, and is not killed for it") {
  const FileLimit limit(64 << 10);
  CHECK_FALSE(ShmArena::create(2));
}

TEST_CASE("a ring carries bytes in their order, and wakes whichever end sleeps") {
  const Fd memory = ShmArena::create(2);
  const auto arena = ShmArena::map(again(memory), 2, 0);
  auto reader = ShmRing::create(memory, arena->ring_at(0, 1));
  auto writer = ShmRing::open(memory, arena->ring_at(0, 1));
  REQUIRE((reader && writer));
  Wakes to_reader;
  Wakes to_writer;
  constexpr std::size_t kBytes = std::size_t{20} << 20;
  const auto byte_at = [](std::size_t at) { return static_cast<char>(at * 7 / 5); };
  std::thread thread([&] {
    std::vector<char> piece(ddp::internal::kShmRing + 1000);
    for (std::size_t at = 0; at < kBytes;) {
      const std::size_t length = std::min(piece.size() - at % 5003, kBytes - at);
      for (std::size_t i = 0; i < length; ++i) piece[i] = byte_at(at + i);
      const std::size_t head = std::min<std::size_t>(length, 24);
      const std::size_t written =
          writer->write({piece.data(), head}, {piece.data() + head, length - head});
      at += written;
      if (writer->must_wake_reader()) to_reader.ring();
      if (written == 0 && writer->waits_for_room()) to_writer.wait();
    }
  });
  std::size_t wrong = 0;
  std::vector<char> piece(30'000);
  for (std::size_t at = 0; at < kBytes;) {
    const std::size_t head = at % 7919;
    const std::size_t bytes =
        reader->read({piece.data(), head}, {piece.data() + head, piece.size() - head});
    for (std::size_t i = 0; i < bytes; ++i) wrong += piece[i] == byte_at(at + i) ? 0 : 1;
    at += bytes;
    if (reader->must_wake_writer()) to_writer.ring();
    if (bytes == 0 && reader->waits_for_bytes()) to_reader.wait();
  }
  thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("an end of a ring does not believe counts that lead out of it") {
  const Fd memory = ShmArena::create(2);
  const auto arena = ShmArena::map(again(memory), 2, 0);
  const std::size_t at = arena->ring_at(1, 0);
  auto reader = ShmRing::create(memory, at);
  auto writer = ShmRing::open(memory, at);
  REQUIRE((reader && writer));
  const std::array<std::uint64_t, 1> far = {~std::uint64_t{0} / 2};
  std::array<char, 100> data{};
  const auto claim = [&](std::size_t place) {
    REQUIRE(::pwrite(memory.get(), far.data(), sizeof(far), static_cast<off_t>(at + place)) ==
            sizeof(far));
  };
  claim(offsetof(ddp::internal::ShmRingMemory, data));
  CHECK(reader->read(data, {}) == 0);
  CHECK_FALSE(reader->holds(1));
  claim(offsetof(ddp::internal::ShmRingMemory, read));
  std::vector<char> much(ddp::internal::kShmRing + 1);
  const std::size_t written = writer->write(much, {});
  CHECK(written > ddp::internal::kShmRing * 9 / 10);
  CHECK(written < ddp::internal::kShmRing);
  CHECK(writer->write(much, {}) == 0);
}

TEST_CASE("the reader of a ring learns that its writer has given up, whatever is in it") {
  const Fd memory = ShmArena::create(2);
  const auto arena = ShmArena::map(again(memory), 2, 0);
  auto reader = ShmRing::create(memory, arena->ring_at(1, 0));
  auto writer = ShmRing::open(memory, arena->ring_at(1, 0));
  REQUIRE((reader && writer));
  const std::array<char, 4> sent = {'s', 'e', 'n', 't'};
  REQUIRE(writer->write(sent, {}) == sent.size());
  CHECK_FALSE(reader->has_writer_given_up());
  writer->give_up();
  CHECK(reader->has_writer_given_up());
  std::array<char, 4> got{};
  CHECK(reader->read(got, {}) == got.size());
  CHECK(got == sent);
}

TEST_CASE("a ring has the room, and the bytes, that it says it has") {
  const Fd memory = ShmArena::create(2);
  const auto arena = ShmArena::map(again(memory), 2, 0);
  auto reader = ShmRing::create(memory, arena->ring_at(1, 0));
  auto writer = ShmRing::open(memory, arena->ring_at(1, 0));
  REQUIRE((reader && writer));
  std::vector<char> sent(70'000);
  std::vector<char> got(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 7 / 3 + 1);
  std::array<char, 24> head{};
  std::size_t waiting = 0;
  for (std::size_t round = 0; round < 3000; ++round) {
    const std::size_t bytes = 24 + round * round * 31 % (sent.size() - 24);
    const std::span<const char> message = std::span(sent).first(bytes);
    if (writer->has_room_for(bytes)) {
      REQUIRE(writer->write(message.first(24), message.subspan(24)) == bytes);
      ++waiting;
      CHECK(reader->holds(bytes));
      if (waiting > 1) continue;
      CHECK_FALSE(reader->holds(bytes + 1));
      REQUIRE(reader->peek(head));
      CHECK(std::ranges::equal(head, message.first(24)));
      REQUIRE(reader->read(std::span(got).first(bytes), {}) == bytes);
      CHECK(std::ranges::equal(std::span(got).first(bytes), message));
      --waiting;
      continue;
    }
    while (reader->read(got, {}) > 0) waiting = 0;
  }
}

TEST_CASE("memory of another process is read as long as it is marked, and no longer") {
  const std::vector<char> data = {'d', 'a', 't', 'a'};
  std::vector<char> got(2);
  MemoryMark mark(4711);
  REQUIRE(mark);
  const MemoryPlace place = mark.place_of(data.data());
  CHECK(is_marked(place, 4711));
  CHECK_FALSE(is_marked(place, 4712));
  CHECK(read_memory(place, 4711, 1, got));
  CHECK(got == std::vector<char>{'a', 't'});
  CHECK_FALSE(read_memory({.data = 8, .mark = place.mark, .process = place.process}, 4711, 0, got));

  const pid_t child = ::fork();  // it has the same memory, and is another process
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  CHECK_FALSE(is_marked({.data = place.data, .mark = place.mark, .process = child}, 4711));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(is_marked({.data = place.data, .mark = place.mark, .process = child}, 4711));
  mark.remove();
  CHECK_FALSE(read_memory(place, 4711, 1, got));
}

TEST_CASE("there is no ring where there is no memory for it, or only one end") {
  const Fd memory = ShmArena::create(2);
  const auto arena = ShmArena::map(again(memory), 2, 0);
  CHECK_FALSE(ShmRing::open(memory, arena->ring_at(0, 1)));
  const FileLimit limit(arena->ring_at(0, 1) + 4096);
  CHECK_FALSE(ShmRing::create(memory, arena->ring_at(0, 1)));
}

TEST_CASE("memory is handed to those who know the token") {
  const ShmMeeting place = meeting("handover");
  const Fd memory = ShmArena::create(2);
  ShmOffer offer(place, 3);
  REQUIRE(offer.is_listening());
  ShmTaker stranger({place.name, place.token + 1});
  ShmTaker first(place);
  ShmTaker second(place);
  REQUIRE((stranger.is_connected() && first.is_connected() && second.is_connected()));
  offer.hand_over(memory);
  CHECK(ShmArena::map(first.take(kDeadline), 2, 1));
  CHECK(ShmArena::map(second.take(kDeadline), 2, 1));
  CHECK_FALSE(stranger.take(kDeadline));
}

TEST_CASE(
    "memory that is not handed over is waited for no longer than the limit, despite signals") {
  const ShmMeeting place = meeting("signals");
  const ShmOffer offer(place, 1);
  ShmTaker taker(place);
  REQUIRE(taker.is_connected());
  std::signal(SIGALRM, [](int) {});
  const itimerval often{{0, 1000}, {0, 1000}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  CHECK_FALSE(taker.take(std::chrono::milliseconds(50)));
  ::setitimer(ITIMER_REAL, std::array<itimerval, 1>{}.data(), nullptr);
  std::signal(SIGALRM, SIG_DFL);
}

TEST_CASE("who finds no offer of shared memory, or one that ends, goes without") {
  const ShmMeeting place = meeting("no offer");
  CHECK_FALSE(ShmTaker(place).is_connected());
  std::optional<ShmOffer> offer(std::in_place, place, 1);
  CHECK_FALSE(ShmOffer(place, 1).is_listening());  // the name is taken
  ShmTaker taker(place);
  CHECK(taker.is_connected());
  offer.reset();
  CHECK_FALSE(taker.take(kDeadline));
}

}  // namespace ddprun::tests
