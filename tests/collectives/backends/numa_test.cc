// SPDX-License-Identifier: Apache-2.0
// Ranks of a host with several NUMA nodes. No such host is needed: the test places the ranks.
#include "collectives/backends/shm/numa.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

#include "collectives/backends/shm/arena.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/numa_reduce.h"
#include "collectives/backends/shm/rounds.h"
#include "collectives/call/call.h"
#include "collectives/call/reduction.h"
#include "ddp/float16.h"
#include "ddp/types.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"

namespace ddprun::tests {
namespace {

using namespace ddp::internal;
using ddp::DataType;
using ddp::ReduceOp;

cpu_set_t cpus(std::initializer_list<int> numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int number : numbers) CPU_SET(static_cast<std::size_t>(number), &set);
  return set;
}

/// A rank with data in a region of the shared memory, in threads of this process.
struct Member {
  Member(const ShmArena& arena, int number, const std::vector<int>& nodes, std::size_t bytes)
      : rounds(arena.members(), number, static_cast<int>(nodes.size()), false),
        heap(arena, number),
        reduce(ShmNumaNodes(nodes, number), rounds, static_cast<int>(nodes.size())),
        in(heap.use(heap.take(bytes))),
        out(heap.use(heap.take(bytes))) {}

  ShmRounds rounds;
  ShmHeap heap;
  ShmNumaReduce reduce;
  std::shared_ptr<void> in;
  std::shared_ptr<void> out;
};

/// The i-th element of a rank; sums of these are exact in every type.
template <class T>
T element(int rank, std::size_t i) {
  return static_cast<T>(static_cast<float>((static_cast<std::size_t>(rank) * 5 + i * 3) % 7));
}

/// Counts results of all ranks that differ from the reduction of all elements in rank order.
template <class T>
std::size_t count_wrong(const std::vector<int>& nodes, DataType type, ReduceOp op,
                        std::size_t count, bool in_place) {
  const auto size = static_cast<int>(nodes.size());
  const std::size_t bytes = count * sizeof(T);
  auto arena = ShmArena::map(ShmArena::create(size), size, 0);
  REQUIRE(arena);
  std::vector<std::unique_ptr<Member>> members;
  for (int rank = 0; rank < size; ++rank) {
    members.push_back(std::make_unique<Member>(*arena, rank, nodes, bytes));
    T* const data = static_cast<T*>(members.back()->in.get());
    for (std::size_t i = 0; i < count; ++i) data[i] = element<T>(rank, i);
  }
  std::vector<T> expected(count);
  std::vector<const void*> parts;
  for (const auto& member : members) parts.push_back(member->in.get());
  reduction(type, op).combine(expected.data(), parts.data(), size, count);

  std::vector<std::jthread> threads;
  for (const auto& member : members) {
    const Task task{.operation = Operation::all_reduce,
                    .type = type,
                    .reduce = op,
                    .count = count,
                    .in = member->in.get(),
                    .out = in_place ? member->in.get() : member->out.get()};
    CHECK(member->reduce.suits(task));
    threads.emplace_back([task, bytes, &own = *member] {
      const auto exchange = [&] { own.rounds.exchange({}, 0); };
      own.reduce.run(task, own.heap.find(task.in, bytes), own.heap.find(task.out, bytes), exchange);
      exchange();
    });
  }
  threads.clear();
  std::size_t wrong = 0;
  for (const auto& member : members) {
    const T* const out = static_cast<const T*>(in_place ? member->in.get() : member->out.get());
    for (std::size_t i = 0; i < count; ++i) wrong += out[i] == expected[i] ? 0U : 1U;
  }
  return wrong;
}

}  // namespace

TEST_CASE("the NUMA node of a process is the one that has all of its CPUs") {
  const Folder nodes;
  const auto make = [&](const std::string& name, const std::string& list) {
    std::filesystem::create_directory(nodes.path / name);
    std::ofstream(nodes.path / name / "cpulist") << list << "\n";
  };
  make("node0", "0-3,8-11");
  make("node1", "4-7,12");
  make("node10", "40");
  make("node2", "");  // only memory
  make("power", "0-100");
  std::ofstream(nodes.path / "possible") << "0-10\n";
  const auto node_of = [&](std::initializer_list<int> numbers) {
    return numa_node_of(cpus(numbers), nodes.path);
  };
  CHECK(node_of({0}) == 0);
  CHECK(node_of({2, 11}) == 0);
  CHECK(node_of({12, 7}) == 1);
  CHECK(node_of({40}) == 10);
  CHECK_FALSE(node_of({3, 4}));
  CHECK_FALSE(node_of({0, 50}));
  CHECK_FALSE(node_of({50}));
  CHECK_FALSE(node_of({}));
  CHECK_FALSE(numa_node_of(cpus({0}), nodes.path / "nothing"));
}

TEST_CASE("ranks are arranged by NUMA node if all nodes have equally many, at least two") {
  const ShmNumaNodes of_three({1, 0, 0, 1}, 3);
  REQUIRE(of_three.are_several());
  CHECK(of_three.own() == std::vector{0, 3});
  CHECK(of_three.place() == 1);
  CHECK(of_three.counterparts() == std::vector{2, 3});
  CHECK_FALSE(ShmNumaNodes({0, 0, 0, 0}, 1).are_several());
  CHECK_FALSE(ShmNumaNodes({0, 1}, 1).are_several());
  CHECK_FALSE(ShmNumaNodes({0, 0, 1, 1, 1}, 1).are_several());
  CHECK_FALSE(ShmNumaNodes({0, 0, -1, -1}, 1).are_several());
  CHECK_FALSE(ShmNumaNodes({-1, -1, -1, -1}, 1).are_several());
}

TEST_CASE("sums are the same with and without NUMA nodes") {
  const auto nodes = GENERATE(std::vector{3, 1, 3, 1}, std::vector{0, 1, 2, 2, 1, 0},
                              std::vector{0, 0, 0, 1, 1, 1});
  const bool in_place = GENERATE(true, false);
  CHECK(count_wrong<ddp::bfloat16>(nodes, DataType::bfloat16, ReduceOp::avg, 600'001, in_place) ==
        0);
  CHECK(count_wrong<float>(nodes, DataType::float32, ReduceOp::sum, 700'003, in_place) == 0);
  CHECK(count_wrong<double>(nodes, DataType::float64, ReduceOp::avg, 200'001, in_place) == 0);
  CHECK(count_wrong<std::int8_t>(nodes, DataType::int8, ReduceOp::min, 1'100'001, in_place) == 0);
}

}  // namespace ddprun::tests
