// SPDX-License-Identifier: Apache-2.0
// Ranks that leave a group before the others do.
#include <cstdint>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"
#include "tests/unused_port.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::ProcessGroup;

namespace {

/// Learns the process of a rank, and waits for its end.
void wait_for_end_of(ProcessGroup& group, int rank) {
  const ddprun::Fd process(
      static_cast<int>(::syscall(SYS_pidfd_open, group.recv<int>(rank, 1), 0)));
  group.send(0, rank, 1);  // that one may end
  pollfd end = {process.get(), POLLIN, 0};
  check(::poll(&end, 1, -1) == 1, "poll");
}

void name_process_to(ProcessGroup& group, int rank) {
  group.send(static_cast<int>(::getpid()), rank, 1);
  static_cast<void>(group.recv<int>(rank, 1));
}

}  // namespace

TEST_CASE("messages of a rank that has left are received after its end", "[tcp][nodes]") {
  check_ranks(3, [](ProcessGroup& group) {
    const std::vector<float> data(40'000, 7);
    if (group.rank() == 1) {
      name_process_to(group, 0);
      group.send(data, 0, 5);
      group.send(3, 2, 6);
      return;
    }
    if (group.rank() == 0) {
      wait_for_end_of(group, 1);
      std::vector<float> received(data.size());
      group.recv(received, 1, 5);
      check(received == data, "the data");
      return group.send(0, 2);
    }
    static_cast<void>(group.recv<int>(0));
    check(group.recv<int>(1, 6) == 3, "the first message of a rank that has ended");
  });
}

TEST_CASE("data that a rank showed in memory is read after its end") {
  const int size = GENERATE(2, 3);
  check_ranks(size, [](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 1) name_process_to(group, 0);
    if (group.rank() == 0) wait_for_end_of(group, 1);
    check(group.broadcast(group.rank(), 1) == 1, "the value of the root");
  });
}

TEST_CASE("a rank that leaves does not wait for the others' calls", "[tcp][nodes]") {
  check_ranks(3, [](ProcessGroup& group) {
    auto part = group.split(group.rank() % 2);
    if (group.rank() == 1) return name_process_to(group, 0);
    if (group.rank() == 0) wait_for_end_of(group, 1);
    check(part->all_reduce(1) == 2, "a sum of the others");
  });
}

TEST_CASE("a rank that left is named in each call that waits for it, and other groups go on",
          "[tcp][nodes]") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    auto part = group.split(0);
    if (group.rank() == 1) {
      part.reset();
    } else {
      try {
        part->barrier();
        wrong("a call went well without rank 1");
      } catch (const ddp::Error& error) {
        check(error.kind() == ErrorKind::left, error.what());
        check(error.lost_ranks() == std::vector{1}, "the lost ranks");
        check(contains(error.what(), "lost rank 1 in #1 barrier: it has left the group"),
              error.what());
      }
    }
    check(group.all_reduce(1) == 3, "a sum in the other group");
  });
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == 0);
  }
}

TEST_CASE("rank 0 serves the store until the others have left") {
  const Words command = rank_command([](ProcessGroup& group) {
    auto others = group.split(group.rank() == 0 ? 0 : 1);
    if (group.rank() == 0) return;
    const auto store = job_store();
    store->get("ddp/0/left/0");
    check(others->split(0)->all_reduce(1) == 2, "a sum in a group made after rank 0 left");
  });
  const std::uint16_t port = unused_port();
  std::vector<Rank> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    Variables variables = place(rank, 3, port);
    variables["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    ranks.emplace_back(command, variables);
  }
  check_success(ranks);
}
