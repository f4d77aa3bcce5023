// SPDX-License-Identifier: Apache-2.0
// Ranks on several nodes: which ranks share memory, and calls of ranks that partly do.
#include "collectives/backends/cpu/nodes.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <ddp/float16.h>
#include <ddp/process_group.h>
#include <filesystem>
#include <memory>
#include <sched.h>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

#include "collectives/backends/cpu/node_blocks.h"
#include "collectives/backends/shm/offer.h"
#include "tests/catch.h"
#include "tests/collectives/in_rank.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

namespace ddprun::tests {
namespace {

using ddp::internal::Blocks;
using ddp::internal::network_namespace;
using ddp::internal::NodeBlocks;
using ddp::internal::Nodes;

const Variables kTwoNodes = {{"DDP_TEST_NODES", "2"}};

/// Runs `call` with a group of `size` ranks in threads of this process, which share no memory.
template <class F>
void in_threads(int size, F call) {
  give_up_shared_memory();
  const auto store = std::make_shared<ddp::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto group = ddp::init_process_group({.backend = "cpu",
                                            .timeout = std::chrono::seconds(60),
                                            .store = store,
                                            .rank = rank,
                                            .world_size = size});
      call(group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Makes calls whose data has the same length on all ranks.
template <class T>
void check_calls(ddp::ProcessGroup& group, std::size_t count) {
  const int size = group.size();
  const auto ranks = static_cast<std::size_t>(size);
  const auto value = [&](int rank, std::size_t i) { return T(static_cast<float>(rank + i % 3)); };
  const auto is = [](T found, float expected) { return static_cast<float>(found) == expected; };
  std::vector<T> own(count);
  for (std::size_t i = 0; i < count; ++i) own[i] = value(group.rank(), i);
  const int root = std::max(size - 2, 0);
  for (const std::size_t i : {std::size_t{0}, count - 1}) {
    const float first = static_cast<float>(i % 3);
    const float sum = static_cast<float>(size) * first + static_cast<float>(size * (size - 1)) / 2;
    std::vector<T> data = own;
    group.all_reduce(data);
    check(is(data[i], sum), "all_reduce");
    data = own;
    group.all_reduce(data, ddp::ReduceOp::max);
    check(is(data[i], first + static_cast<float>(size - 1)), "all_reduce max");
    data = own;
    group.all_reduce(data, ddp::ReduceOp::avg);
    check(is(data[i], sum / static_cast<float>(size)), "all_reduce avg");
    data = own;
    group.reduce(data, root);
    check(group.rank() != root || is(data[i], sum), "reduce");
    data = own;
    group.broadcast(data, root);
    check(is(data[i], first + static_cast<float>(root)), "broadcast");
    std::vector<T> all(count * ranks);
    group.all_gather(own, all);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      check(is(all[rank * count + i], first + static_cast<float>(rank)), "all_gather");
    }
    std::vector<T> gathered(group.rank() == root ? count * ranks : 0);
    group.gather(own, gathered, root);
    check(group.rank() != root || gathered == all, "gather");
    std::vector<T> block(count);
    group.scatter(gathered, block, root);
    check(block == own, "scatter");
    group.reduce_scatter(all, block);
    check(is(block[i], static_cast<float>(size) * (first + static_cast<float>(group.rank()))),
          "reduce_scatter");
    std::vector<T> swapped(count * ranks);
    group.all_to_all(all, swapped);
    check(is(swapped[count * (ranks - 1) + i], first + static_cast<float>(group.rank())),
          "all_to_all");
    group.barrier();
  }
}

/// Makes calls with blocks of different lengths by rank, one of them empty. Element `i` of all
/// blocks of rank `r` is r + i % 5.
void check_unequal_calls(ddp::ProcessGroup& group, std::size_t step) {
  std::vector<std::size_t> counts;
  std::size_t before = 0;
  std::size_t total = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) before = total;
    counts.push_back(static_cast<std::size_t>(rank) * step);
    total += counts.back();
  }
  const std::size_t mine = counts[static_cast<std::size_t>(group.rank())];
  const auto value = [](int rank, std::size_t i) { return static_cast<float>(rank + i % 5); };
  std::vector<float> own(mine);
  for (std::size_t i = 0; i < mine; ++i) own[i] = value(group.rank(), i);
  std::vector<float> all(total, -1);
  group.all_gather_v(own, all, counts);
  const float* next = all.data();
  for (int rank = 0; rank < group.size(); ++rank) {
    for (std::size_t i = 0; i < counts[static_cast<std::size_t>(rank)]; ++i) {
      check(*next++ == value(rank, i), "all_gather_v");
    }
  }
  for (std::size_t i = 0; i < total; ++i) all[i] = value(group.rank(), i);
  group.reduce_scatter_v(all, own, counts);
  float ranks = 0;
  for (int rank = 0; rank < group.size(); ++rank) ranks += static_cast<float>(rank);
  for (std::size_t i = 0; i < mine; ++i) {
    const float expected = ranks + static_cast<float>(group.size()) * value(0, before + i);
    check(own[i] == expected, "reduce_scatter_v");
  }
}

/// Checks lengths around those at which calls change.
void check_all_lengths(ddp::ProcessGroup& group) {
  for (const std::size_t count : {1, 3'000, 9'000, 40'001}) check_calls<float>(group, count);
  for (const std::size_t count : {3, 7'000, 40'001}) check_calls<ddp::bfloat16>(group, count);
  for (const std::size_t step : {1, 2'000, 20'001}) check_unequal_calls(group, step);
}

}  // namespace

TEST_CASE("calls of more than eight ranks, in log2(n) steps, give the right results") {
  const int size = GENERATE(9, 16);
  const auto ended = run_ranks(
      1,
      [](int ranks) {
        in_threads(ranks, [](ddp::ProcessGroup& group) {
          check_calls<float>(group, 1);
          check_calls<float>(group, 5'000);
          check_calls<float>(group, 17'000);  // longer than data that goes with a call
          check_calls<ddp::bfloat16>(group, 3);
          check_calls<double>(group, 10);
        });
      },
      size);
  INFO(ended[0].output);
  CHECK(ended[0].code == 0);
}

TEST_CASE("one of many ranks in another call is named") {
  const auto ended = run_ranks(1, [] {
    in_threads(11, [](ddp::ProcessGroup& group) {
      float one = 1;
      try {
        group.rank() == 7 ? group.barrier() : group.broadcast(std::span(&one, 1));
        wrong("the calls differ");
      } catch (const ddp::Error& error) {
        const std::string text = error.what();
        check(error.kind() == ddp::ErrorKind::mismatch && contains(text, "#1 barrier"), text);
      }
    });
  });
  INFO(ended[0].output);
  CHECK(ended[0].code == 0);
}

TEST_CASE("one of many ranks connects to few") {
  const auto ended = run_ranks(1, [] {
    constexpr int kSize = 40;
    std::barrier<> formed(kSize + 1);
    std::thread counter([&] {
      formed.arrive_and_wait();
      int sockets = 0;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
        if (target.starts_with("socket:")) ++sockets;
      }
      // One socket to listen, and both ends of those to 6 ranks before and 6 after.
      check(sockets <= kSize * (1 + 2 * 2 * 6), std::to_string(sockets) + " sockets");
      formed.arrive_and_wait();
    });
    in_threads(kSize, [&](ddp::ProcessGroup& group) {
      group.barrier();
      formed.arrive_and_wait();
      formed.arrive_and_wait();
    });
    counter.join();
  });
  INFO(ended[0].output);
  CHECK(ended[0].code == 0);
}

TEST_CASE("threads know whether they are in the same network namespace") {
  const auto ended = run_ranks(1, [] {
    const std::uint64_t here = network_namespace();
    check(here != 0, "it is known");
    std::thread([here] {
      check(network_namespace() == here, "the same");
      if (::unshare(CLONE_NEWNET) == 0) check(network_namespace() != here, "another one");
    }).join();
  });
  INFO(ended[0].output);
  CHECK(ended[0].code == 0);
}

TEST_CASE("ranks that reach the same memory are on one node, in the order of ranks") {
  const Nodes nodes({0, 1, 0, 1, 4, 0});
  CHECK(nodes.count() == 3);
  CHECK(nodes.ranks(0) == std::vector{0, 2, 5});
  CHECK(nodes.ranks(1) == std::vector{1, 3});
  CHECK(nodes.ranks(2) == std::vector{4});
  CHECK(nodes.node_of(5) == 0);
  CHECK(nodes.place_of(5) == 2);
  CHECK(nodes.of(3) == std::vector{1, 3});
  CHECK(nodes.smallest() == 1);
  CHECK(nodes.counterparts(0) == std::vector{0, 1, 4});
}

TEST_CASE("a rank that reaches a rank that itself reaches another is alone") {
  const Nodes nodes({0, 0, 1});
  CHECK(nodes.ranks(0) == std::vector{0, 1});
  CHECK(nodes.ranks(1) == std::vector{2});
}

TEST_CASE("a node's blocks are packed in the order of places, without a copy if possible") {
  const Blocks all({1, 2, 3, 0, 4}, 0, 5);
  std::vector<char> data = {'a', 'b', 'b', 'c', 'c', 'c', 'e', 'e', 'e', 'e'};
  std::vector<char> room;
  const NodeBlocks apart(all, {0, 2, 4});
  CHECK(apart.count() == 8);
  CHECK(std::string_view(apart.pack(data.data(), 1, room), 8) == "accceeee");
  apart.room_for(data.data(), 1, room)[0] = 'A';
  apart.unpack(data.data(), 1, room);
  CHECK(std::string_view(data.data(), 3) == "Abb");
  CHECK(NodeBlocks(all, {1, 2}).pack(data.data(), 1, room) == data.data() + 1);
  CHECK(NodeBlocks(all, {2, 3, 4}).room_for(data.data(), 1, room) == data.data() + 3);
}

TEST_CASE("if one rank of a node cannot share memory, no rank there does, and others do") {
  const Nodes nodes = Nodes({0, 1, 0, 1}).without_broken({1, 1, 0, 1});
  CHECK(nodes.count() == 3);
  CHECK(nodes.of(0) == std::vector{0});
  CHECK(nodes.of(2) == std::vector{2});
  CHECK(nodes.of(1) == std::vector{1, 3});
}

TEST_CASE("ranks of several nodes share memory with the ranks of their node") {
  const Words command = rank_command([](ddp::ProcessGroup& group) {
    check(is_sharing_memory() == (::geteuid() != 1), "whether memory is shared");
    group.barrier();
  });
  check_ranks(3, command, kTwoNodes);
}

TEST_CASE("sums of narrow floats over several nodes are rounded once") {
  const Words command = rank_command([](ddp::ProcessGroup& group) {
    for (const std::size_t count : {std::size_t{3}, std::size_t{100'000}}) {
      // 256 + 1 is 256 in bfloat16, but 256 + 1 + 1 + 1 is not.
      std::vector<ddp::bfloat16> data(count, ddp::bfloat16(group.rank() == 0 ? 256.0F : 1.0F));
      group.all_reduce(data);
      check(static_cast<float>(data.front()) == 260, "sum");
      check(static_cast<float>(data.back()) == 260, "last sum");
    }
  });
  check_ranks(4, command, kTwoNodes);
}

TEST_CASE("calls of ranks on several nodes give the right results for any placement") {
  // Ranks are on the nodes by turns: the last nodes may have fewer.
  const auto [ranks, nodes] = GENERATE(table<int, int>({{3, 2}, {5, 2}, {5, 3}, {6, 2}}));
  const Words command = rank_command([](ddp::ProcessGroup& group) { check_all_lengths(group); });
  check_ranks(ranks, command, {{"DDP_TEST_NODES", std::to_string(nodes)}});
}

TEST_CASE("ranks of a node may follow each other, and parts be on some of the group's nodes") {
  const Words command = rank_command([](ddp::ProcessGroup& group) {
    auto by_node = group.split(0, group.rank() % 2 * group.size() + group.rank());
    check_all_lengths(*by_node);
    auto some = group.split(group.rank() == 1 ? 1 : 0, -group.rank());
    if (some->size() > 1) check_all_lengths(*some);
  });
  check_ranks(5, command, kTwoNodes);
}

TEST_CASE("both sides name block lengths on which ranks of two nodes do not agree") {
  const int reduces = GENERATE(0, 1);
  const Words command = rank_command(
      [](ddp::ProcessGroup& group, int does_reduce) {
        std::vector<std::size_t> counts = {30'000, 30'000, 30'000, 30'000};
        if (group.rank() == 1) counts[2] = 30'001;
        std::vector<float> own(30'000);
        std::vector<float> all(120'000 + (group.rank() == 1 ? 1 : 0));
        does_reduce != 0 ? group.reduce_scatter_v(all, own, counts)
                         : group.all_gather_v(own, all, counts);
      },
      reduces);
  check_failure(run_ranks(4, command, kTwoNodes), ddp::ErrorKind::mismatch, {"30001", "30000"});
}

TEST_CASE("ranks in another call are named, one or all of a node, with and without memory") {
  const bool uses_memory = GENERATE(false, true);
  const int bytes = GENERATE(4, 1 << 20);
  const int ranks = GENERATE(0b1010, 0b1000, 0b0001);  // the highest bit is rank 3
  const Words command = rank_command(
      [](ddp::ProcessGroup& group, bool with_memory, int count, int others) {
        std::vector<std::int8_t> data(static_cast<std::size_t>(count));
        std::vector<std::int8_t> all(4 * data.size());
        const bool is_other = (others >> group.rank() & 1) != 0;
        if (!is_other) return group.all_reduce(data);
        with_memory ? group.all_gather(data, all) : group.all_to_all(all, all);
      },
      uses_memory, bytes, ranks);
  check_failure(run_ranks(4, command, kTwoNodes), ddp::ErrorKind::mismatch,
                {"#1 all_reduce", uses_memory ? "#1 all_gather" : "#1 all_to_all"});
}

TEST_CASE("ranks of several nodes name a rank of another node lost in the middle of a call") {
  const int which = GENERATE(0, 1, 2, 3);
  const Words command = rank_command(
      [](ddp::ProcessGroup& group, int operation) {
        std::vector<float> data(100'000);
        std::vector<float> all(500'000);
        const auto call = [&] {
          if (operation == 0) group.all_reduce(data);
          if (operation == 1) group.reduce(data, 1);
          if (operation == 2) group.all_gather(data, all);
          if (operation == 3) group.reduce_scatter(all, data);
        };
        call();
        if (group.rank() == 3) ::raise(SIGKILL);
        while (true) call();
      },
      which);
  auto ended = run_ranks(5, command, kTwoNodes);
  CHECK(ended[3].code == 128 + SIGKILL);
  ended.erase(ended.begin() + 3);
  check_failure(ended, ddp::ErrorKind::peer_lost, {"lost rank 3"});
}

}  // namespace ddprun::tests
