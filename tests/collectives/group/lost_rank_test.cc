// SPDX-License-Identifier: Apache-2.0
// Process groups that lose a rank.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "ddp/process_group.h"
#include "ddp/record.h"
#include "store/client.h"
#include "tests/catch.h"
#include "tests/collectives/failure/stuck_store.h"
#include "tests/collectives/group/fail_for_good.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/unused_port.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;
using StoreClient = ddprun::store::Client;

namespace {

using Elements = std::vector<float>;
using Counts = std::vector<std::size_t>;

/// Rank `victim` dies while `call` moves data; the others repeat it until they notice.
template <class F>
void die_in_the_middle(ProcessGroup& group, int victim, F call) {
  group.barrier();  // connects all ranks
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

/// Leaves a child process behind, as a data loader may do; it ends after `other`.
void leave_child_until_end_of(pid_t other) {
  pollfd end = {static_cast<int>(::syscall(SYS_pidfd_open, other, 0)), POLLIN, 0};
  check(end.fd >= 0, "pidfd_open");
  if (::fork() != 0) return;
  ::close(STDOUT_FILENO);  // the test reads until it is closed
  ::close(STDERR_FILENO);
  ::poll(&end, 1, -1);
  ::_exit(0);
}

/// A call to be repeated, with 2^20 elements for each rank in `blocks`.
struct RepeatedCall {
  const char* name;
  std::size_t count;  ///< elements of `data`
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

/// Checks that rank 1 was killed, and that the others say so.
void check_killed_rank_1(std::vector<Ended> ended) {
  CHECK(ended[1].code == 128 + SIGKILL);
  ended.erase(ended.begin() + 1);
  check_failure(ended, ErrorKind::peer_lost, {"lost rank 1 in "});
}

}  // namespace

TEST_CASE("the others fail and name a rank killed in the middle of a call", "[nodes]") {
  const int size = GENERATE(2, 4);
  const int call = any_of(kRepeatedCalls);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  if ((size == 2) == (call % 2 == 0))
    return;  // sanitizers take ten times as long: each call with one size
#endif
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

TEST_CASE("the others fail and name a rank killed in the middle of a call of a part",
          "[tcp][nodes]") {
  const int size = GENERATE(2, 4);
  check_killed_rank_1(run_ranks(size, [](ProcessGroup& group) {
    auto part = group.split(0, -group.rank());
    Elements data(100, 1);
    die_in_the_middle(group, 1, [&] { part->all_reduce(data); });
  }));
}

TEST_CASE("a rank that leaves its other groups because of a loss is not taken for the lost one") {
  for (int job = 0; job < 6; ++job) {  // depends on which of two events on rank 0 came first
    check_killed_rank_1(run_ranks(3, [](ProcessGroup& group) {
      auto part = group.split(group.rank() % 2);
      part->barrier();
      group.barrier();
      if (group.rank() == 1) std::raise(SIGKILL);
      group.rank() == 0 ? group.barrier() : part->barrier();
    }));
  }
}

TEST_CASE("the others fail and name a rank killed while they connect to it") {
  const int size = GENERATE(2, 4);
  const LiveStore store;
  const Words command = rank_command([](ProcessGroup& group) { group.barrier(); });
  std::vector<Rank> ranks;
  for (int rank = 1; rank < size; ++rank) {
    ranks.emplace_back(command, place(rank, size, store.port()));
  }
  auto client = must(StoreClient::connect("127.0.0.1", store.port(), 20s, 20s));
  must(client.wait({"/ddp/0/joined/1"}, 20s));
  ranks[0].kill();
  CHECK(ranks[0].wait().code == 128 + 9);  // while it waited for rank 0
  ranks.emplace_back(command, place(0, size, store.port()));
  std::vector<Ended> others;
  for (std::size_t i = 1; i < ranks.size(); ++i) others.push_back(ranks[i].wait());
  check_failure(others, ErrorKind::peer_lost, {"lost rank 1 while connecting"});
}

TEST_CASE("a rank 0 killed while it waits for the others is named at once, also by late ranks") {
  constexpr int kSize = 5;
  const LiveStore store;
  const Words command = rank_command([](ProcessGroup& group) { group.barrier(); });
  const auto start = [&](int rank) {
    Variables variables = place(rank, kSize, store.port());
    variables["DDP_TEST_JOIN_MS"] = "3600000";
    return Rank(command, variables);
  };
  auto client = must(StoreClient::connect("127.0.0.1", store.port(), 20s, 20s));
  std::vector<Rank> ranks;
  for (int rank = 0; rank < kSize - 1; ++rank) {
    ranks.push_back(start(rank));
    must(client.wait({"/ddp/0/joined/" + std::to_string(rank)}, 60s));
  }
  ranks[0].kill();
  CHECK(ranks[0].wait().code == 128 + SIGKILL);
  std::vector<Ended> others;
  for (int rank = 1; rank < kSize - 1; ++rank) others.push_back(ranks[rank].wait());
  others.push_back(start(kSize - 1).wait());
  check_failure(others, ErrorKind::peer_lost, {"lost rank 0 while connecting"});
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

TEST_CASE("the others fail only when the process of a rank that left with an error has ended",
          "[mpi][tcp][nodes]") {
  const int size = is_over_mpi() ? 3 : GENERATE(2, 4);
  const bool throws = GENERATE(false, true);
  const bool receives = GENERATE(false, true);
  const auto ended = run_ranks(
      size,
      [](bool by_exception, bool in_message) -> int {
        static std::optional<ddprun::Fd> last;  // a process
        try {
          ProcessGroup group = join();
          std::vector<int> processes(static_cast<std::size_t>(group.size()));
          const int own = ::getpid();
          group.all_gather(std::span(&own, 1), processes);
          last.emplace(static_cast<int>(::syscall(SYS_pidfd_open, processes.back(), 0)));
          group.barrier();
          if (group.rank() + 1 < group.size()) {
            in_message ? static_cast<void>(group.recv<int>(group.size() - 1)) : group.barrier();
          }
          if (by_exception) throw std::runtime_error("thrown by the program");
        } catch (const ddp::Error& error) {
          pollfd end{.fd = last->get(), .events = POLLIN, .revents = 0};
          check(::poll(&end, 1, 0) == 1, std::string("it still runs: ") + error.what());
          return 0;
        } catch (const std::runtime_error&) {
          std::this_thread::sleep_for(100ms);  // the process takes some time to end
          return 1;
        }
        static const struct Last {
          ~Last() { std::this_thread::sleep_for(100ms); }
        } slow_end;
        return 7;
      },
      throws, receives);
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(!contains(rank.output, "wrong: "));
  }
  CHECK(ended.back().code == (throws ? 1 : 7));
}

TEST_CASE("a rank that ends with an error waits for no other, which may be busy") {
  const Words command = rank_command([]() -> int {
    ProcessGroup group = join();
    if (group.rank() == 0) ::pause();
    return 7;
  });
  const auto ended = run_ranks_but(0, 2, command, {{"DDP_TEST_JOIN_MS", "3600000"}});
  INFO(ended[0].output);
  CHECK(ended[0].code == 7);
}

TEST_CASE("a rank whose store never answers about a loss ends with the loss as the reason") {
  const Words command = rank_command([] {
    ProcessGroup group = join({.store = std::make_shared<StuckStore>()});
    group.set_timeout(1h);
    group.barrier();
    if (group.rank() == 1) std::raise(SIGKILL);
    group.barrier();
  });
  const auto ended = run_ranks(2, command, {{"DDP_TEST_JOIN_MS", "10000"}});
  INFO(ended[0].output);
  CHECK(ended[0].code == 124);
  CHECK(contains(ended[0].output, "lost rank 1 in #2 barrier: its connection ended; the store"));
}

TEST_CASE("record() shows no calls of a rank that only lost another") {
  const auto ended = run_ranks(2, rank_command([] {
                                 return ddp::record([] {
                                   ProcessGroup group = join();
                                   group.barrier();
                                   if (group.rank() == 1) std::raise(SIGKILL);
                                   group.barrier();
                                   return 0;
                                 });
                               }));
  INFO(ended[0].output);
  CHECK(ended[0].code == 1);
  CHECK(ended[0].output ==
        "ddp::Error: ddp: rank 0 lost rank 1 in #2 barrier: its connection ended\n");
}

TEST_CASE("the others name a stopped rank 0 if it serves the store") {
  const std::uint16_t port = unused_port();
  const Words command = rank_command([](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 0) std::raise(SIGSTOP);
    group.barrier();
  });
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    Variables variables = place(rank, 3, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    variables.insert(kImpatient.begin(), kImpatient.end());
    ranks.emplace_back(command, variables);
  }
  for (int rank = 1; rank < 3; ++rank) {
    const Ended ended = ranks[static_cast<std::size_t>(rank)].wait();
    INFO(ended.output);
    CHECK(ended.code != 0);
    CHECK(contains(ended.output, "rank 0"));
    CHECK(contains(ended.output, " serve"));
  }
}

TEST_CASE("the others fail and name a rank that throws between calls", "[tcp][nodes]") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    group.barrier();  // connects all ranks
    if (group.rank() == 1) throw std::runtime_error("thrown by the program");
    fail_for_good(group, [&] { group.barrier(); });
  });
  CHECK(ended[1].code == 2);
  CHECK(contains(ended[1].output, "thrown by the program"));
  check_failure({ended[0], ended[2]}, ErrorKind::peer_lost, {"lost rank 1"});
}

TEST_CASE("the end of a rank is noticed while a process that it forked is alive", "[tcp]") {
  const int victim = GENERATE(0, 1);  // rank 0 serves the store
  const bool sends = GENERATE(false, true);
  const Words command = rank_command(
      [](ProcessGroup& group, int dies, bool waits_for_message) {
        const int other = 1 - group.rank();
        group.send(static_cast<int>(::getpid()), other);
        const auto process = group.recv<int>(other);
        group.barrier();
        if (group.rank() == dies) {
          leave_child_until_end_of(process);
          std::raise(SIGKILL);
        }
        waits_for_message ? static_cast<void>(group.recv<int>(other)) : group.barrier();
      },
      victim, sends);
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    Variables variables = place(rank, 2, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(command, variables);
  }
  CHECK(ranks[victim].wait().code == 128 + SIGKILL);
  check_failure({ranks[1 - victim].wait()}, ErrorKind::peer_lost,
                {"rank " + std::to_string(victim)});
}
