// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/collectives/group/two_groups.h"
#include "tests/collectives/ranks.h"
#include "tests/unused_port.h"

using namespace ddprun::tests;
using ddp::ProcessGroup;
using ddp::ReduceOp;

namespace {

// Calls change from small to large around 16,384 float32 and 8,192 float64.
const std::vector<std::size_t> kCounts = {0, 1, 3, 64, 1000, 8'192, 8'193, 16'384, 16'385, 65'537};

/// The value of rank `rank` at `i`: spread, of both signs, with ties between ranks.
template <class T>
T value(int rank, std::size_t i) {
  const auto mixed = static_cast<std::int64_t>((i * 2654435761U + std::size_t(rank) * 40503U) >> 3);
  const T whole = static_cast<T>(mixed % 1000 - 500);
  return std::is_floating_point_v<T> ? whole / T(8) + T(0.1) : whole;
}

template <class T>
std::vector<T> values(int rank, std::size_t count) {
  std::vector<T> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = value<T>(rank, i);
  return all;
}

template <class T>
double reference(ReduceOp op, int size, std::size_t i) {
  double result = static_cast<double>(value<T>(0, i));
  for (int rank = 1; rank < size; ++rank) {
    const double next = static_cast<double>(value<T>(rank, i));
    if (op == ReduceOp::min) result = std::min(result, next);
    if (op == ReduceOp::max) result = std::max(result, next);
    if (op == ReduceOp::sum || op == ReduceOp::avg) result += next;
  }
  return op == ReduceOp::avg ? result / size : result;
}

template <class T>
void check_reduce(ProcessGroup& group, ReduceOp op, std::size_t count) {
  std::vector<T> data = values<T>(group.rank(), count);
  group.all_reduce(data, op);
  const bool exact = !std::is_floating_point_v<T> || op == ReduceOp::min || op == ReduceOp::max;
  for (std::size_t i = 0; i < count; ++i) {
    const double expected = reference<T>(op, group.size(), i);
    const double tolerance = exact ? 0 : 1e-5 * std::abs(expected) + 1e-4;
    if (std::abs(static_cast<double>(data[i]) - expected) > tolerance) {
      wrong("operation " + std::to_string(int(op)) + " count " + std::to_string(count) + " at " +
            std::to_string(i) + ": " + std::to_string(data[i]) + ", expected " +
            std::to_string(expected));
    }
  }
  std::vector<T> again = values<T>(group.rank(), count);
  group.all_reduce(again, op);
  if (count > 0 && std::memcmp(again.data(), data.data(), count * sizeof(T)) != 0) {
    wrong("another result the second time");
  }
  std::vector<T> of_last = data;
  group.broadcast(of_last, group.size() - 1);
  if (count > 0 && std::memcmp(of_last.data(), data.data(), count * sizeof(T)) != 0) {
    wrong("ranks disagree");
  }
}

template <class T>
void check_type(ProcessGroup& group) {
  for (std::size_t count : kCounts) {
    for (ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max}) {
      check_reduce<T>(group, op, count);
    }
    if (std::is_floating_point_v<T>) check_reduce<T>(group, ReduceOp::avg, count);
    for (int root = 0; root < group.size(); ++root) {
      std::vector<T> data = values<T>(group.rank(), count);
      group.broadcast(data, root);
      if (data != values<T>(root, count)) wrong("broadcast from " + std::to_string(root));
    }
  }
}

std::int64_t sum_of_ranks(ProcessGroup& group, std::int64_t own) {
  group.all_reduce(std::span(&own, 1));
  return own;
}

}  // namespace

TEST_CASE("every operation gives the right result for every type at every size of group", "[tcp]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    check_type<float>(group);
    check_type<double>(group);
    check_type<std::int32_t>(group);
    check_type<std::int64_t>(group);
    group.barrier();
  });
}

TEST_CASE("calls in quick succession keep their order", "[mpi][tcp][nodes]") {
  check_ranks(3, [](ProcessGroup& group) {
    for (std::int32_t i = 0; i < 200; ++i) {
      const int root = i % group.size();
      std::vector<std::int32_t> data(i % 10 == 9 ? 40'000 : 100, group.rank() == root ? i : -1);
      group.broadcast(data, root);
      if (data.back() != i) wrong("broadcast " + std::to_string(i));
    }
  });
}

TEST_CASE("two groups of the same ranks do not disturb each other", "[mpi]") {
  check_ranks(3, [](ProcessGroup& group) { use_two_groups(group); });
}

TEST_CASE("a group is split, parts are split, and ranks leave them in any order", "[mpi][nodes]") {
  const int ranks = GENERATE(1, 2, 3, 4, 5);
  check_ranks(ranks, [](ProcessGroup& group) {
    const int rank = group.rank();
    const int size = group.size();
    auto half = group.split(rank % 2, -rank);
    if (half->size() != (size + 1 - rank % 2) / 2) wrong("size of a half");
    if (half->rank() != half->size() - 1 - rank / 2) wrong("rank in a half");
    std::int64_t expected = 0;
    for (int other = rank % 2; other < size; other += 2) expected += other;
    if (sum_of_ranks(*half, rank) != expected) wrong("sum of a half");

    const std::vector<int> ends = size == 1 ? std::vector{0} : std::vector{size - 1, 0};
    auto two = group.new_group(ends);
    if (two.has_value() != (rank == 0 || rank == size - 1)) wrong("who is in the new group");
    if (two && sum_of_ranks(*two, rank) != size - 1) wrong("sum of the new group");
    if (two && ends[static_cast<std::size_t>(two->rank())] != rank) wrong("rank in the new group");

    auto none = group.split(rank == 0 ? -1 : 3);
    if (none.has_value() == (rank == 0)) wrong("who is in no part");
    auto quarter = half->split(0, half->rank());
    if (sum_of_ranks(*quarter, rank) != expected) wrong("sum of a part's part");
    if (rank % 2 == 0) half.reset();
    two.reset();
    none.reset();
    quarter.reset();
  });
}

TEST_CASE("ranks that all have a color are split into groups", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    ProcessGroup half = group.split_by_color(group.rank() % 2, -group.rank());
    check(half.size() == (group.size() + 1 - group.rank() % 2) / 2, "the size of a half");
    check(half.rank() == half.size() - 1 - group.rank() / 2, "the rank in a half");
    refused([&] { static_cast<void>(group.split_by_color(-1)); });
  });
}

TEST_CASE("ranks gather different numbers of elements as a vector", "[mpi][tcp]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    std::vector<int> expected;
    for (int rank = 0; rank < group.size(); ++rank) {
      for (int i = 0; i < rank; ++i) expected.push_back(10 * rank + i);
    }
    std::vector<int> own;
    for (int i = 0; i < group.rank(); ++i) own.push_back(10 * group.rank() + i);
    check(group.all_gather_v(own) == expected, "all_gather_v");
    const int root = group.size() - 1;
    const bool is_root = group.rank() == root;
    check(group.gather_v(own, root) == (is_root ? expected : std::vector<int>()), "gather_v");
  });
}

TEST_CASE("counts, ranks and messages may be lists in braces") {
  check_ranks(2, [](ProcessGroup& group) {
    const int rank = group.rank();
    std::vector<int> own(rank == 0 ? 1 : 2, rank);
    std::vector<int> all(3);
    group.all_gather_v(own, all, {1, 2});
    check(all == std::vector{0, 1, 1}, "all_gather_v with counts in braces");
    auto turned = group.new_group({1, 0});
    check(turned->rank() == 1 - rank, "the rank in a group of ranks in braces");
    int sent = rank;
    int received = -1;
    group.batch_send_recv({ddp::P2POp::send(std::span(&sent, 1), 1 - rank),
                           ddp::P2POp::recv(std::span(&received, 1), 1 - rank)});
    check(received == 1 - rank, "messages in braces");
    if (rank == 1) return;
    ProcessGroup alone = group.shrink({1});
    check(alone.size() == 1, "the rest without a rank in braces");
  });
}

TEST_CASE("ranks of one host are a group of one node", "[mpi][tcp]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    ProcessGroup node = group.split_by_node();
    check(node.size() == group.size() && node.rank() == group.rank(), "the ranks of this host");
    check(sum_of_ranks(node, 1) == group.size(), "a sum of this host's ranks");
  });
}

TEST_CASE("a part that refuses a call names this rank as in the first group") {
  check_ranks(2, [](ProcessGroup& group) {
    const std::string own = "ddp: rank " + std::to_string(group.rank()) + ": ";
    auto part = group.split(0, -group.rank());
    const auto check_named = [&](const auto& call) {
      try {
        call();
        wrong("not refused");
      } catch (const ddp::Error& error) {
        check(std::string(error.what()).starts_with(own), error.what());
      }
    };
    std::vector<float> data(1);
    check_named([&] { part->broadcast(data, 99); });
    check_named([&] { (void)part->new_group({}); });
  });
}

TEST_CASE("two threads use two groups at once", "[mpi]") {
  check_ranks(3, [](ProcessGroup& first) {
    auto second = *first.split(0);
    const auto work = [](ProcessGroup& group, std::size_t count) {
      for (std::int64_t i = 0; i < 100; ++i) {
        std::vector<std::int64_t> data(count, i + group.rank());
        group.all_reduce(data);
        const std::int64_t size = group.size();
        if (data.back() != size * i + size * (size - 1) / 2) wrong("sum in a thread");
      }
    };
    std::thread other([&] { work(second, 1); });
    work(first, 30'000);
    other.join();
  });
}

TEST_CASE("byte strings of any length are broadcast and gathered", "[mpi]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    const auto object_of = [](int rank) {
      return std::string(static_cast<std::size_t>(rank % 3) * 70'000,
                         static_cast<char>('a' + rank));
    };
    std::vector<std::string> expected;
    for (int rank = 0; rank < group.size(); ++rank) expected.push_back(object_of(rank));
    const std::string own = object_of(group.rank());
    if (group.all_gather_object(own) != expected) wrong("all_gather_object");
    for (int root = 0; root < group.size(); ++root) {
      const auto got = group.gather_object(own, root);
      if (got != (group.rank() == root ? expected : std::vector<std::string>())) {
        wrong("gather_object");
      }
      std::string object = own;
      group.broadcast_object(object, root);
      if (object != expected[static_cast<std::size_t>(root)]) wrong("broadcast_object");
    }
  });
}

TEST_CASE("without a launcher's store rank 0 serves it, and other ranks may come first") {
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 2; rank >= 0; --rank) {
    Variables variables = place(rank, 3, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(rank_command([](ProcessGroup& group) { use_two_groups(group); }), variables);
  }
  check_success(ranks);
}

TEST_CASE("a group made and left during stack unwinding finishes its calls") {
  check_ranks(2, [](ProcessGroup& group) {
    static const std::vector<float> payload(1'000'000, 1);  // sent when rank 1 receives it
    struct Leaver {
      ~Leaver() { const ddp::Work sent = join().isend(payload, 1); }
    };
    if (group.rank() == 0) {
      try {
        const Leaver leaver;
        throw std::runtime_error("unwinds");
      } catch (const std::runtime_error&) {
      }
      group.barrier();
    } else {
      ProcessGroup second = join();
      group.barrier();
      std::vector<float> data(payload.size());
      second.recv(data, 0);
      check(data == payload, "other data");
    }
  });
}
