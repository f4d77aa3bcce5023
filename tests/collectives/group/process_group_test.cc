// SPDX-License-Identifier: Apache-2.0
#include "ddp/process_group.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <thread>
#include <unistd.h>

#include "store/client.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/group/two_groups.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/unused_port.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;
using ddp::ReduceOp;
using StoreClient = ddprun::store::Client;

namespace {

// Around 16,384 float32 and 8,192 float64, calls change from small to large.
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

const auto kJustMeet = [](ProcessGroup& group) { group.barrier(); };

/// Makes a call that fails, and then another, which has to fail with the same error.
template <class F>
void fail_for_good(ProcessGroup& group, F call) {
  try {
    call();
  } catch (const ddp::Error& first) {
    try {
      group.barrier();
      wrong("a broken group went on");
    } catch (const ddp::Error& second) {
      if (second.what() != std::string(first.what())) wrong("the error is not sticky");
    }
    throw;
  }
}

/// Rank `victim` dies while `call` moves data; the others go on until they notice.
template <class F>
void die_in_the_middle(ProcessGroup& group, int victim, F call) {
  group.barrier();  // so that all are connected
  std::atomic<int> calls{0};
  std::thread killer;
  if (group.rank() == victim) {
    killer = std::thread([&] {
      calls.wait(0);
      std::raise(SIGKILL);
    });
  }
  for (;;) {
    call();
    calls = 1;
    calls.notify_one();
  }
}

using Elements = std::vector<float>;
using Counts = std::vector<std::size_t>;

/// A call that is made again and again, with 2^20 elements for each rank in `blocks`.
struct RepeatedCall {
  const char* name;
  std::size_t count;  ///< of data
  void (*make)(ProcessGroup& group, Elements& data, Elements& blocks, const Counts& counts);
};

constexpr std::size_t kBlock = 1 << 20;

const RepeatedCall kRepeatedCalls[] = {
    {"small all_reduce", 10, [](auto& group, auto& data, auto&, auto&) { group.all_reduce(data); }},
    {"large all_reduce", 4 << 20,
     [](auto& group, auto& data, auto&, auto&) { group.all_reduce(data); }},
    {"broadcast", 4 << 20, [](auto& group, auto& data, auto&, auto&) { group.broadcast(data, 0); }},
    {"reduce", kBlock, [](auto& group, auto& data, auto&, auto&) { group.reduce(data, 0); }},
    {"gather", kBlock,
     [](auto& group, auto& data, auto& blocks, auto&) { group.gather(data, blocks, 0); }},
    {"gather_v", kBlock,
     [](auto& group, auto& data, auto& blocks, auto& counts) {
       group.gather_v(data, blocks, counts, 0);
     }},
    {"all_gather", kBlock,
     [](auto& group, auto& data, auto& blocks, auto&) { group.all_gather(data, blocks); }},
    {"all_gather_v", kBlock,
     [](auto& group, auto& data, auto& blocks, auto& counts) {
       group.all_gather_v(data, blocks, counts);
     }},
    {"scatter", kBlock,
     [](auto& group, auto& data, auto& blocks, auto&) { group.scatter(blocks, data, 0); }},
    {"scatter_v", kBlock,
     [](auto& group, auto& data, auto& blocks, auto& counts) {
       group.scatter_v(blocks, counts, data, 0);
     }},
    {"reduce_scatter", kBlock,
     [](auto& group, auto& data, auto& blocks, auto&) { group.reduce_scatter(blocks, data); }},
    {"reduce_scatter_v", kBlock,
     [](auto& group, auto& data, auto& blocks, auto& counts) {
       group.reduce_scatter_v(blocks, data, counts);
     }},
    {"all_to_all", kBlock,
     [](auto& group, auto&, auto& blocks, auto&) { group.all_to_all(blocks, blocks); }},
    {"all_to_all_v", kBlock,
     [](auto& group, auto&, auto& blocks, auto& counts) {
       group.all_to_all_v(blocks, counts, blocks, counts);
     }},
    {"barrier", 0, [](auto& group, auto&, auto&, auto&) { group.barrier(); }},
    {"all_reduce of the group's memory", 0,
     [](auto& group, auto&, auto&, auto&) {
       static const auto memory = group.allocate(4 * kBlock * sizeof(float));
       group.all_reduce(std::span(static_cast<float*>(memory.get()), 4 * kBlock));
     }},
    {"all_to_all of the group's memory", 0,
     [](auto& group, auto&, auto& blocks, auto&) {
       static const auto memory = group.allocate(blocks.size() * sizeof(float));
       const std::span in(static_cast<const float*>(memory.get()), blocks.size());
       group.all_to_all(in, blocks);
     }},
    {"allocate", 0, [](auto& group, auto&, auto&, auto&) { (void)group.allocate(kBlock); }},
    {"send and recv", kBlock,
     [](auto& group, auto& data, auto& blocks, auto&) {
       const bool first = group.rank() == 0;
       if (first) group.send(blocks, 1);
       if (group.rank() == 1) group.recv(blocks, 0);
       if (group.rank() > 1) group.barrier();
       if (first) group.recv(data, 1);
       if (group.rank() == 1) group.send(data, 0);
     }},
};

/// A call that rank 1, the `odd` one, makes otherwise than the others.
struct DifferentCall {
  void (*make)(ProcessGroup& group, bool odd);
  Words texts;               ///< in every rank's error
  std::string of_four = {};  ///< the same with four ranks
};

const DifferentCall kDifferentCalls[] = {
    {[](ProcessGroup& group, bool odd) {
       Elements data(odd ? 101 : 100);
       group.all_reduce(data);
     },
     {"all_reduce sum float32[100]", "all_reduce sum float32[101]"},
     "; rank 1 is at #1 all_reduce sum float32[101], the others at #1 all_reduce sum float32[100]"},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       std::vector<double> doubles(100);
       odd ? group.all_reduce(doubles) : group.all_reduce(data);
     },
     {"all_reduce sum float32[100]", "all_reduce sum float64[100]"}},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       group.all_reduce(data, odd ? ReduceOp::max : ReduceOp::sum);
     },
     {"all_reduce sum float32[100]", "all_reduce max float32[100]"}},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       odd ? group.barrier() : group.all_reduce(data);
     },
     {"all_reduce sum float32[100]", "barrier"},
     "; rank 1 is at #1 barrier, the others at #1 all_reduce sum float32[100]"},
    {[](ProcessGroup& group, bool odd) { group.new_group(odd ? std::vector{0} : std::vector{1}); },
     {"makes a new_group of other ranks than rank"}},
    {[](ProcessGroup& group, bool odd) {
       const auto blocks = static_cast<std::size_t>(group.size());
       const Counts counts(blocks, 5);
       Elements all(5 * blocks);
       Counts sends = counts;
       if (odd) sends[0] = 4;
       Elements out(odd ? all.size() - 1 : all.size());
       group.all_to_all_v(out, sends, all, counts);
       group.barrier();  // a rank whose own blocks fit fails here
     },
     {"all_to_all_v float32", "elements", "which", "rank 0", "rank 1"}},
    {[](ProcessGroup& group, bool odd) {
       Elements data(100);
       group.broadcast(data, odd ? 1 : 0);
     },
     {"broadcast float32[100] from rank 0", "broadcast float32[100] from rank 1"}},
};

/// Rank 1 was killed, and the others say so.
void check_killed_rank_1(std::vector<Ended> ended) {
  CHECK(ended[1].code == 128 + SIGKILL);
  ended.erase(ended.begin() + 1);
  check_failure(ended, ErrorKind::peer_lost, {"lost rank 1 in "});
}

template <std::size_t N, class T>
int any_of(const T (&)[N]) {
  return GENERATE(range(0, static_cast<int>(N)));
}

}  // namespace

TEST_CASE("every operation gives every type's right result at every size of group", "[tcp]") {
  const int size = GENERATE(1, 2, 3, 4);
  check_ranks(size, [](ProcessGroup& group) {
    check_type<float>(group);
    check_type<double>(group);
    check_type<std::int32_t>(group);
    check_type<std::int64_t>(group);
    group.barrier();
  });
}

TEST_CASE("calls in quick succession keep to their order", "[mpi][tcp][nodes]") {
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
  const int ranks = GENERATE(2, 3, 5);
  check_ranks(ranks, [](ProcessGroup& group) {
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
  const int size = GENERATE(1, 2, 4);
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

TEST_CASE("without a launcher's store rank 0 serves it, and ranks may come before it") {
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 2; rank >= 0; --rank) {
    Variables variables = place(rank, 3, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(rank_command([](ProcessGroup& group) { use_two_groups(group); }), variables);
  }
  check_success(ranks);
}

TEST_CASE("a rank killed in the middle of a call fails the others, which name it", "[nodes]") {
  const int size = GENERATE(2, 4);
  const int call = any_of(kRepeatedCalls);
  const auto ended = run_ranks(
      size,
      [](ProcessGroup& group, int number) {
        const RepeatedCall& repeated = kRepeatedCalls[number];
        const auto ranks = static_cast<std::size_t>(group.size());
        Elements data(repeated.count, 1);
        Elements blocks(kBlock * ranks);
        const Counts counts(ranks, kBlock);
        fail_for_good(group, [&] {
          die_in_the_middle(group, 1, [&] { repeated.make(group, data, blocks, counts); });
        });
      },
      call);
  INFO(kRepeatedCalls[call].name);
  check_killed_rank_1(ended);
}

TEST_CASE("a rank killed in the middle of a call of a part fails the others, which name it",
          "[tcp][nodes]") {
  const int size = GENERATE(2, 4);
  check_killed_rank_1(run_ranks(size, [](ProcessGroup& group) {
    auto part = group.split(0, -group.rank());
    Elements data(100, 1);
    die_in_the_middle(group, 1, [&] { part->all_reduce(data); });
  }));
}

TEST_CASE("a rank killed while others connect to it fails them, and they name it") {
  const int size = GENERATE(2, 4);
  const LiveStore store;
  std::vector<Rank> ranks;
  for (int rank = 1; rank < size; ++rank) {
    ranks.emplace_back(rank_command(kJustMeet), place(rank, size, store.port()));
  }
  auto client = must(StoreClient::connect("127.0.0.1", store.port(), 20s, 20s));
  must(client.wait({"/ddp/0/joined/1"}, 20s));
  ranks[0].kill();
  CHECK(ranks[0].wait().code == 128 + 9);  // while it waited for rank 0
  ranks.emplace_back(rank_command(kJustMeet), place(0, size, store.port()));
  std::vector<Ended> others;
  for (std::size_t i = 1; i < ranks.size(); ++i) others.push_back(ranks[i].wait());
  check_failure(others, ErrorKind::peer_lost, {"lost rank 1 while connecting"});
}

TEST_CASE("a killed rank 0 is named even if it served the store") {
  const Words command = rank_command([](ProcessGroup& group) {
    Elements data(10, 1);
    fail_for_good(group, [&] { die_in_the_middle(group, 0, [&] { group.all_reduce(data); }); });
  });
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    Variables variables = place(rank, 4, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(command, variables);
  }
  for (int rank = 0; rank < 4; ++rank) {
    const Ended ended = ranks[rank].wait();
    INFO(ended.output);
    CHECK(ended.code == (rank == 0 ? 128 + 9 : failed(ErrorKind::peer_lost)));
    CHECK((rank == 0 || contains(ended.output, "rank 0")));
  }
}

TEST_CASE("a rank that throws between calls fails the others, which name it", "[tcp][nodes]") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    group.barrier();  // so that all are connected
    if (group.rank() == 1) throw std::runtime_error("thrown by the program");
    fail_for_good(group, [&] { group.barrier(); });
  });
  CHECK(ended[1].code == 2);
  CHECK(contains(ended[1].output, "thrown by the program"));
  check_failure({ended[0], ended[2]}, ErrorKind::peer_lost, {"lost rank 1"});
}

TEST_CASE("a group that is made and left as an exception unwinds the stack finishes its calls") {
  check_ranks(2, [](ProcessGroup& group) {
    static const std::vector<float> payload(1'000'000, 1);  // is sent when rank 1 receives it
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

TEST_CASE("calls that differ between ranks fail before data moves, and are named",
          "[mpi][tcp][nodes]") {
  const int call = any_of(kDifferentCalls);
  const int size = GENERATE(2, 4);
  const auto ended = run_ranks(
      size,
      [](ProcessGroup& group, int number) {
        fail_for_good(group, [&] { kDifferentCalls[number].make(group, group.rank() == 1); });
      },
      call);
  check_failure(ended, ErrorKind::mismatch, kDifferentCalls[call].texts);
  if (size == 4) check_failure(ended, ErrorKind::mismatch, {kDifferentCalls[call].of_four});
}

TEST_CASE("a rank that leaves early is reported as at the group's end, not as lost") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    if (group.rank() != 1) fail_for_good(group, [&] { group.barrier(); });
  });
  check_failure({ended[0], ended[2]}, ErrorKind::mismatch, {"the group's end"});
}

TEST_CASE("a rank that never makes the call ends the others' wait, and they name it",
          "[mpi][nodes]") {
  const int size = GENERATE(2, 4);
  const Words command = rank_command([](ProcessGroup& group) {
    if (group.rank() == 1) ::pause();
    fail_for_good(group, [&] { group.barrier(); });
  });
  check_failure(run_ranks_but(1, size, command, kImpatient), ErrorKind::timed_out,
                {"timed out after 1500 ms in #1 barrier: rank 1 is in no call yet"});
}

TEST_CASE("ranks that do not join are named") {
  const LiveStore store;
  std::vector<Rank> ranks;
  const Words command = rank_command([] {
    const auto there = job_store();
    there->set("runs/" + variable_or("RANK", ""), "");
    there->wait({"runs/0", "runs/2"});  // so that both begin to join at once
    join();
  });
  for (const int rank : {0, 2}) {
    Variables variables = kImpatientToJoin;
    variables.merge(place(rank, 4, store.port()));
    ranks.emplace_back(command, variables);
  }
  check_failure({ranks[0].wait(), ranks[1].wait()}, ErrorKind::timed_out,
                {"ranks 1 and 3 did not join within 1500 ms"});
}

TEST_CASE("a store that is not there is named") {
  const std::uint16_t port = unused_port();
  Variables variables = kImpatientToJoin;
  variables.merge(place(1, 2, port));
  check_failure(
      {Rank(rank_command(kJustMeet), variables).wait()}, ErrorKind::timed_out,
      {"cannot reach the store at 127.0.0.1:" + std::to_string(port), "Connection refused"});
}

TEST_CASE("wrong arguments are refused and leave the group as it was", "[mpi]") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::vector<std::int32_t> data(4, group.rank());
    const ddp::DeviceSpan<std::int32_t> device = {data.data(), data.size()};
    const ddp::P2POp mixture[] = {ddp::P2POp::send(data, 1 - group.rank()),
                                  ddp::P2POp::recv(device, 1 - group.rank())};
    const ddp::DeviceSpan<std::int32_t> elsewhere = {data.data(), data.size(),
                                                     reinterpret_cast<CUstream_st*>(16)};
    const ddp::P2POp streams[] = {ddp::P2POp::send(device, 1 - group.rank()),
                                  ddp::P2POp::recv(elsewhere, 1 - group.rank())};
    refused([&] { group.all_reduce(data, ReduceOp::avg); });
    refused([&] { group.broadcast(data, 99); });
    refused([&] { group.all_reduce(data, device); });
    refused([&] { group.batch_send_recv(mixture); });
    refused([&] { group.batch_send_recv(streams); });
    refused([&] { group.reduce(device, {}, 1 - group.rank()); });
    refused([&] { (void)group.ibroadcast(device); });
    const std::span<std::int32_t> endless(data.data(), std::size_t{0} - 1);
    refused([&] { group.all_reduce(endless); });
    refused([&] { group.all_gather(endless, endless); });
    refused([&] { (void)group.isend(endless, 1 - group.rank()); });
    group.all_reduce(data);  // the group is as good as before
    if (data[0] != group.size() * (group.size() - 1) / 2) wrong("sum after misuse");
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
    CHECK(contains(rank.output, "cannot take the avg of int32"));
    CHECK(contains(rank.output, "broadcast from rank 99, but ranks are 0 to 1"));
    CHECK(contains(rank.output, "all_reduce: in is in host memory, but out on a device"));
    CHECK(contains(rank.output, "batch_send_recv of buffers in host memory and on a device"));
    CHECK(contains(rank.output, "batch_send_recv of buffers with several streams"));
    for (const char* call : {"all_reduce", "all_gather", "send"}) {
      CHECK(contains(rank.output, std::string(call) + " of 18446744073709551615 elements"));
    }
    if (is_over_mpi()) continue;  // which moves data on devices
    CHECK(contains(rank.output, "reduce: backend cpu moves data in host memory only"));
    CHECK(contains(rank.output, "broadcast: backend cpu moves data in host memory only"));
    CHECK(contains(rank.output, "it takes init_process_group({.backend = \"nccl\"})"));
  }
}

TEST_CASE("a wrong environment is refused with a hint") {
  const auto [name, value, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"RANK", "", "RANK is not set: start the program with ddprun"},
      {"WORLD_SIZE", "", "WORLD_SIZE is not set"},
      {"MASTER_ADDR", "", "MASTER_ADDR is not set"},
      {"RANK", "one", "RANK=one is not a number from 0"},
      {"RANK", "2", "RANK=2 is not below WORLD_SIZE=2"},
      {"MASTER_PORT", "70000", "MASTER_PORT=70000 is not a number from 1 to 65535"},
  }));
  Variables variables = place(0, 2, 1);
  variables[name] = value;
  check_failure({Rank(rank_command(kJustMeet), variables).wait()}, ErrorKind::usage, {expected});
}

TEST_CASE(
    "a backend that is not installed, or cannot be loaded, is refused with the missing library") {
  const Folder folder;
  const std::filesystem::path library = DDPRUN_LIB;
  std::filesystem::copy_file(library, folder.path / library.filename());
  const bool broken = GENERATE(false, true);
  if (broken) std::ofstream(folder.path / "libddp_mpi.so") << "no library";
  check_failure(run_ranks(2, rank_command(kJustMeet),
                          {{"DDP_TEST_BACKEND", "mpi"}, {"LD_LIBRARY_PATH", folder.path.string()}}),
                ErrorKind::usage,
                {broken ? "backend mpi cannot be loaded: "
                        : "backend mpi is not installed here: there is no ",
                 "/libddp_mpi.so"});
}
