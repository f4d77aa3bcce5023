// SPDX-License-Identifier: Apache-2.0
// One rank of the tests: worker SCENARIO [TIMEOUT_MS [INIT_METHOD]]. Exit code: 0 all right, 1 a
// wrong result (told), 10 + kind for a ddp::Error (told), of which it checked that it is sticky.

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ddp/process_group.h>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

using namespace ddprun::tests;
using ddp::ProcessGroup;
using ddp::ReduceOp;

std::string init_method = "env://";

// Around 16,384 float32 and 8,192 float64, calls change from small to large.
const std::vector<std::size_t> kCounts = {0, 1, 3, 64, 1000, 8'192, 8'193, 16'384, 16'385, 65'537};

/// What rank `rank` holds at `i`: spread, of both signs, with ties between ranks.
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

void check_all(ProcessGroup& group) {
  check_type<float>(group);
  check_type<double>(group);
  check_type<std::int32_t>(group);
  check_type<std::int64_t>(group);
  group.barrier();
}

/// Rank `victim` dies while `call` moves data; the others go on until they notice.
template <class F>
void die_in_the_middle(ProcessGroup& group, int victim, std::size_t count, F call) {
  group.barrier();  // so that all are connected
  std::atomic<int> calls{0};
  std::thread killer;
  if (group.rank() == victim) {
    killer = std::thread([&] {
      calls.wait(0);
      std::raise(SIGKILL);
    });
  }
  std::vector<float> data(count, 1);
  for (;;) {
    call(data);
    calls = 1;
    calls.notify_one();
  }
}

void die(ProcessGroup& group, const std::string& how) {
  const auto all_reduce = [&](auto& data) { group.all_reduce(data); };
  std::vector<float> blocks((1 << 20) * static_cast<std::size_t>(group.size()));
  const auto with_blocks = [&](auto call) { die_in_the_middle(group, 1, 1 << 20, call); };
  if (how == "reduce") with_blocks([&](auto& data) { group.reduce(data, 0); });
  if (how == "gather") with_blocks([&](auto& data) { group.gather(data, blocks, 0); });
  if (how == "all_gather") with_blocks([&](auto& data) { group.all_gather(data, blocks); });
  if (how == "scatter") with_blocks([&](auto& data) { group.scatter(blocks, data, 0); });
  if (how == "reduce_scatter") with_blocks([&](auto& data) { group.reduce_scatter(blocks, data); });
  if (how == "all_to_all") with_blocks([&](auto&) { group.all_to_all(blocks, blocks); });
  if (how == "send") {
    with_blocks([&](auto& data) {
      const bool first = group.rank() == 0;
      if (first) group.send(blocks, 1);
      if (group.rank() == 1) group.recv(blocks, 0);
      if (group.rank() > 1) group.barrier();
      if (first) group.recv(data, 1);
      if (group.rank() == 1) group.send(data, 0);
    });
  }
  if (how == "barrier") with_blocks([&](auto&) { group.barrier(); });
  const std::vector<std::size_t> counts(static_cast<std::size_t>(group.size()), 1 << 20);
  if (how == "gather_v") with_blocks([&](auto& data) { group.gather_v(data, blocks, counts, 0); });
  if (how == "all_gather_v") {
    with_blocks([&](auto& data) { group.all_gather_v(data, blocks, counts); });
  }
  if (how == "scatter_v") {
    with_blocks([&](auto& data) { group.scatter_v(blocks, counts, data, 0); });
  }
  if (how == "reduce_scatter_v") {
    with_blocks([&](auto& data) { group.reduce_scatter_v(blocks, data, counts); });
  }
  if (how == "all_to_all_v") {
    with_blocks([&](auto&) { group.all_to_all_v(blocks, counts, blocks, counts); });
  }
  if (how == "part") {
    auto part = group.split(0, -group.rank());
    die_in_the_middle(group, 1, 100, [&](auto& data) { part->all_reduce(data); });
  }
  const auto broadcast = [&](auto& data) { group.broadcast(data, 0); };
  if (how == "first") die_in_the_middle(group, 0, 10, all_reduce);
  if (how == "small") die_in_the_middle(group, 1, 10, all_reduce);
  if (how == "large") die_in_the_middle(group, 1, 4 << 20, all_reduce);
  if (how == "broadcast") die_in_the_middle(group, 1, 4 << 20, broadcast);
}

/// Rank 1 makes another call than the others.
void differ(ProcessGroup& group, const std::string& how) {
  const bool odd = group.rank() == 1;
  std::vector<float> data(odd && how == "count" ? 101 : 100);
  std::vector<double> doubles(100);
  if (odd && how == "operation") {
    group.barrier();
  } else if (how == "list") {
    group.new_group(odd ? std::vector{0} : std::vector{1});
  } else if (how == "counts") {
    const auto blocks = static_cast<std::size_t>(group.size());
    std::vector<std::size_t> counts(blocks, 5);
    std::vector<float> all(5 * blocks);
    std::vector<std::size_t> sends = counts;
    if (odd) sends[0] = 4;
    std::vector<float> out(odd ? all.size() - 1 : all.size());
    group.all_to_all_v(out, sends, all, counts);
    group.barrier();  // whoever found nothing wrong with its own blocks is told now
  } else if (odd && how == "type") {
    group.all_reduce(doubles);
  } else if (how == "root") {
    group.broadcast(data, odd ? 1 : 0);
  } else {
    group.all_reduce(data, odd && how == "reduction" ? ReduceOp::max : ReduceOp::sum);
  }
}

void misuse(ProcessGroup& group) {
  std::vector<std::int32_t> data(4, group.rank());
  const ddp::DeviceSpan<std::int32_t> device = {data.data(), data.size()};
  const ddp::P2POp mixture[] = {ddp::P2POp::send(data, 1 - group.rank()),
                                ddp::P2POp::recv(device, 1 - group.rank())};
  refused([&] { group.all_reduce(data, ReduceOp::avg); });
  refused([&] { group.broadcast(data, 99); });
  refused([&] { group.all_reduce(data, device); });
  refused([&] { group.batch_send_recv(mixture); });
  refused([&] { group.reduce(device, {}, 1 - group.rank()); });
  refused([&] { (void)group.ibroadcast(device); });
  const std::span<std::int32_t> endless(data.data(), std::size_t{0} - 1);
  refused([&] { group.all_reduce(endless); });
  refused([&] { group.all_gather(endless, endless); });
  refused([&] { (void)group.isend(endless, 1 - group.rank()); });
  group.all_reduce(data);  // the group is as good as before
  if (data[0] != group.size() * (group.size() - 1) / 2) wrong("sum after misuse");
}

void two_groups(ProcessGroup& first) {
  auto second = ddp::init_process_group({.backend = backend_of_test(),
                                         .timeout = std::chrono::seconds(60),
                                         .init_method = init_method});
  for (int i = 0; i < 20; ++i) {
    std::vector<std::int64_t> one(1, i);
    first.broadcast(one, 0);
    second.all_reduce(one);
    if (one[0] != i * first.size()) wrong("two groups");
  }
}

std::int64_t sum_of_ranks(ProcessGroup& group, std::int64_t own) {
  group.all_reduce(std::span(&own, 1));
  return own;
}

/// Groups made of groups, left in another order by every rank.
void parts(ProcessGroup& group) {
  const int rank = group.rank();
  const int size = group.size();
  auto half = group.split(rank % 2, -rank);
  if (half->size() != (size + 1 - rank % 2) / 2) wrong("size of a half");
  if (half->rank() != half->size() - 1 - rank / 2) wrong("rank in a half");
  std::int64_t expected = 0;
  for (int other = rank % 2; other < size; other += 2) expected += other;
  if (sum_of_ranks(*half, rank) != expected) wrong("sum of a half");

  auto two = group.new_group(std::vector{size - 1, 0});
  if (two.has_value() != (rank == 0 || rank == size - 1)) wrong("who is in the new group");
  if (two && sum_of_ranks(*two, rank) != size - 1) wrong("sum of the new group");
  if (two && two->rank() != (rank == 0 ? 1 : 0)) wrong("rank in the new group");

  auto none = group.split(rank == 0 ? -1 : 3);
  if (none.has_value() == (rank == 0)) wrong("who is in no part");
  auto quarter = half->split(0, half->rank());
  if (sum_of_ranks(*quarter, rank) != expected) wrong("sum of a part's part");
  if (rank % 2 == 0) half.reset();
  two.reset();
  none.reset();
  quarter.reset();
}

/// Two groups of all ranks, each used by a thread of its own.
void threads(ProcessGroup& first) {
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
}

void objects(ProcessGroup& group) {
  const auto object_of = [](int rank) {
    return std::string(static_cast<std::size_t>(rank % 3) * 70'000, static_cast<char>('a' + rank));
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
}

/// Small and large calls from changing roots, one right after the other.
void hurry(ProcessGroup& group) {
  for (std::int32_t i = 0; i < 200; ++i) {
    const int root = i % group.size();
    std::vector<std::int32_t> data(i % 10 == 9 ? 40'000 : 100, group.rank() == root ? i : -1);
    group.broadcast(data, root);
    if (data.back() != i) wrong("broadcast " + std::to_string(i));
  }
}

void by_node(ProcessGroup& group) {
  auto node = group.split_by_node();
  std::vector<int> ranks(static_cast<std::size_t>(node.size()));
  const int own = group.rank();
  node.all_gather(std::span(&own, 1), ranks);
  std::string line = "rank " + std::to_string(group.rank()) + " is on a node with";
  for (const int rank : ranks) line += " " + std::to_string(rank);
  std::puts(line.c_str());
}

void run(ProcessGroup& group, const std::string& scenario) {
  if (scenario == "all") return check_all(group);
  if (scenario.starts_with("die-")) return die(group, scenario.substr(4));
  if (scenario.starts_with("differ-")) return differ(group, scenario.substr(7));
  if (scenario == "misuse") return misuse(group);
  if (scenario == "two-groups") return two_groups(group);
  if (scenario == "hurry") return hurry(group);
  if (scenario == "parts") return parts(group);
  if (scenario == "by-node") return by_node(group);
  if (scenario == "threads") return threads(group);
  if (scenario == "objects") return objects(group);
  if (scenario == "leave-early" && group.rank() == 1) return;
  if (scenario == "never-come" && group.rank() == 1) ::pause();
  if (scenario == "throw") {
    group.barrier();  // so that all are connected
    if (group.rank() == 1) throw std::runtime_error("thrown by the program");
  }
  group.barrier();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "all";
  const bool impatient = argc > 2;
  if (argc > 3) init_method = argv[3];
  try {
    auto group = ddp::init_process_group(
        {.backend = backend_of_test(),
         .timeout = std::chrono::milliseconds(impatient ? std::atoi(argv[2]) : 60'000),
         .init_method = init_method});
    try {
      run(group, scenario);
    } catch (const ddp::Error& first) {
      if (scenario == "die-part") return report(first);  // the whole group did not fail
      try {
        group.barrier();
        wrong("a broken group went on");
      } catch (const ddp::Error& second) {
        if (second.what() != std::string(first.what())) wrong("the error is not sticky");
      }
      return report(first);
    }
  } catch (const ddp::Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
  return 0;
}
