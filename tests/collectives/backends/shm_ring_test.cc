// SPDX-License-Identifier: Apache-2.0
// Rings in shared memory, and other processes' memory that they refer to. The test uses threads, so
// that the thread sanitizer sees the order of the accesses.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/other_memory.h"
#include "collectives/backends/shm/ring.h"
#include "tests/catch.h"
#include "tests/collectives/backends/again.h"
#include "tests/collectives/backends/file_limit.h"

namespace ddprun::tests {
namespace {

using ddp::internal::is_marked;
using ddp::internal::MemoryMark;
using ddp::internal::MemoryPlace;
using ddp::internal::read_memory;
using ddp::internal::ShmArena;
using ddp::internal::ShmRing;

/// Wakes an end of a ring.
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

}  // namespace

TEST_CASE("a ring carries bytes in order, and wakes whichever end sleeps") {
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
  CHECK_FALSE(reader->read_all(data, {}));
  claim(offsetof(ddp::internal::ShmRingMemory, read));
  std::vector<char> much(ddp::internal::kShmRing + 1);
  const std::size_t written = writer->write(much, {});
  CHECK(written > ddp::internal::kShmRing * 9 / 10);
  CHECK(written < ddp::internal::kShmRing);
  CHECK(writer->write(much, {}) == 0);
}

TEST_CASE("the reader of a ring notices that its writer has given up, whatever is in the ring") {
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

TEST_CASE("a ring has the room and the bytes that it reports") {
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
      if (waiting > 1) continue;
      CHECK_FALSE(reader->read_all(std::span(got).first(bytes), head));
      REQUIRE(reader->peek(head));
      CHECK(std::ranges::equal(head, message.first(24)));
      REQUIRE(reader->read_all(head, std::span(got).subspan(24, bytes - 24)));
      std::ranges::copy(head, got.begin());
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

  const pid_t child = ::fork();  // another process with the same memory
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

TEST_CASE("there is no ring without memory for it, or with only one end") {
  const Fd memory = ShmArena::create(2);
  const auto arena = ShmArena::map(again(memory), 2, 0);
  CHECK_FALSE(ShmRing::open(memory, arena->ring_at(0, 1)));
  const FileLimit limit(arena->ring_at(0, 1) + 4096);
  CHECK_FALSE(ShmRing::create(memory, arena->ring_at(0, 1)));
}

}  // namespace ddprun::tests
