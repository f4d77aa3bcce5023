// SPDX-License-Identifier: Apache-2.0
// Ranks in memory that processes share, with only the code below that: for processors that this
// machine emulates. shm_aarch64_test.sh compiles and runs it.
//   shm_order RANKS ROUNDS
// Each rank makes all_reduces in memory of ShmHeap, in place, and checks the results. Then each
// shows the others numbers without a wait, and sends the next rank bytes through a ring. Exit code
// 0: all results were right on every rank.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/ring.h"
#include "collectives/backends/shm/rounds.h"
#include "collectives/backends/shm/zero_copy.h"

namespace {

using namespace ddp::internal;

constexpr std::size_t kCount = 20'000;

void require(bool is_right, const char* what) {
  if (is_right) return;
  std::printf("process %d: wrong: %s\n", ::getpid(), what);
  std::exit(1);
}

std::int32_t element(int rank, int round, std::size_t i) {
  return (rank + 1) * round + static_cast<std::int32_t>(i % 97);
}

/// Each rank shows a number in its turn; the others wait for it and read it.
void pass_around(ShmRounds& rounds, int ranks, int rank, int count) {
  for (int round = 1; round <= count; ++round) {
    const int from = round / 20 % ranks;
    if (rank == from) std::memcpy(rounds.out(sizeof(round)), &round, sizeof(round));
    const Call call = {.number = static_cast<std::uint64_t>(round)};
    rank == from ? rounds.send(call, ShmRounds::kToAll) : rounds.receive(call, from);
    int shown = 0;
    std::memcpy(&shown, rounds.data_of(from, sizeof(shown)), sizeof(shown));
    require(shown == round, "the number");
  }
}

/// Moves both ends by turns: a rank that waits for one end looks at the other.
void send_around(const ShmArena& arena, ShmRounds& rounds, int rank, std::size_t bytes) {
  const int next = (rank + 1) % arena.ranks();
  const int previous = (rank + arena.ranks() - 1) % arena.ranks();
  auto from = ShmRing::create(*arena.memory(), arena.ring_at(previous, rank));
  rounds.exchange({.number = 1}, 0);  // now all have created theirs
  auto to = ShmRing::open(*arena.memory(), arena.ring_at(rank, next));
  require(from.has_value() && to.has_value(), "no ring");
  std::vector<char> piece(10'000);
  std::vector<char> came(7'000);
  const auto byte_at = [](std::size_t at) { return static_cast<char>(at * 7 / 5); };
  for (std::size_t sent = 0, received = 0; sent < bytes || received < bytes;) {
    const std::size_t length = std::min(piece.size(), bytes - sent);
    for (std::size_t i = 0; i < length; ++i) piece[i] = byte_at(sent + i);
    sent += to->write({piece.data(), length}, {});
    const std::size_t read = from->read(came, {});
    for (std::size_t i = 0; i < read; ++i) require(came[i] == byte_at(received + i), "a byte");
    received += read;
  }
  rounds.exchange({.number = 2}, 0);
}

void work(const ddprun::Fd& memory, int ranks, int rank, int count) {
  const auto arena =
      ShmArena::map(ddprun::Fd(::fcntl(memory.get(), F_DUPFD_CLOEXEC, 0)), ranks, rank);
  require(arena.has_value(), "no arena");
  ShmRounds rounds(arena->members(), rank, ranks, false);
  ShmHeap heap(*arena, rank);
  const auto region = heap.take(kCount * sizeof(std::int32_t));
  require(region != nullptr, "no region");
  rounds.exchange({}, 0);
  const auto own = heap.use(region);
  ShmZeroCopy zero_copy(heap, rounds, rank, ranks);
  const std::span data(static_cast<std::int32_t*>(own.get()), kCount);
  for (int round = 1; round <= count; ++round) {
    for (std::size_t i = 0; i < kCount; ++i) data[i] = element(rank, round, i);
    const Call call = {.number = static_cast<std::uint64_t>(round)};
    const Task task = {.operation = Operation::all_reduce,
                       .type = ddp::DataType::int32,
                       .count = kCount,
                       .in = data.data(),
                       .out = data.data()};
    const auto places = zero_copy.find(task);
    rounds.exchange(call, 0);
    zero_copy.run(task, places, [] { require(false, "a round"); });
    rounds.exchange(call, 0);
    for (std::size_t i = 0; i < kCount; ++i) {
      std::int32_t sum = 0;
      for (int other = 0; other < ranks; ++other) sum += element(other, round, i);
      require(data[i] == sum, "the sum");
    }
  }
  pass_around(rounds, ranks, rank, 100 * count);
  send_around(*arena, rounds, rank, static_cast<std::size_t>(count) * 100'000);
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 2;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 100;
  const ddprun::Fd memory = ShmArena::create(ranks);
  require(static_cast<bool>(memory), "no memory");
  for (int rank = 0; rank < ranks; ++rank) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG,
            SIGKILL);  // nothing else ends a rank that waits for one that has failed
    work(memory, ranks, rank, rounds);
    std::exit(0);
  }
  for (int status = 0; ::wait(&status) > 0;) {
    if (status != 0) return 1;
  }
  return 0;
}
