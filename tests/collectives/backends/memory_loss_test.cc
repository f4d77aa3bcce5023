// SPDX-License-Identifier: Apache-2.0
// Ranks that share memory and lose a rank that is in that memory.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/stores/job_store.h"
#include "tests/contains.h"

namespace fs = std::filesystem;
using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::P2POp;
using ddp::ProcessGroup;

namespace {

/// Repeats `call`; after some time rank 1 is killed in one.
template <class F>
void lose_rank_1_in(ProcessGroup& group, F call) {
  group.barrier();
  std::atomic<int> calls = 0;
  std::thread killer;
  if (group.rank() == 1) {
    killer = std::thread([&] {
      while (calls < 3) calls.wait(calls);
      std::raise(SIGKILL);
    });
  }
  for (;;) {
    call();
    ++calls;
    calls.notify_one();
  }
}

void check_lost_rank_1(std::vector<Ended> ended) {
  CHECK(ended[1].code == 128 + SIGKILL);
  ended.erase(ended.begin() + 1);
  check_failure(ended, ErrorKind::peer_lost, {"lost rank 1 "});
}

/// A memory cgroup of this test; `path` is empty if this process cannot make one.
struct MemoryGroup {
  fs::path path;

  explicit MemoryGroup(const std::string& bytes) {
    for (const auto& [root, limit] : {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                      std::pair{"/sys/fs/cgroup", "memory.max"}}) {
      path = fs::path(root) / ("ddp_test_" + std::to_string(::getpid()));
      std::error_code refused;
      fs::create_directory(path, refused);
      if (!refused && write(limit, bytes)) return;
      fs::remove(path, refused);
    }
    path.clear();
  }
  ~MemoryGroup() {
    std::error_code ignored;
    if (!path.empty()) fs::remove(path, ignored);
  }
  MemoryGroup(const MemoryGroup&) = delete;

 private:
  bool write(const char* file, const std::string& text) const {
    std::ofstream stream(path / file);
    stream << text << std::flush;
    return stream.good();
  }
};

}  // namespace

TEST_CASE("the others fail and name a rank killed in a call on the group's memory") {
  const int size = GENERATE(2, 3);
  check_lost_rank_1(run_ranks(size, [](ProcessGroup& group) {
    constexpr std::size_t kCount = std::size_t{1} << 20;
    const auto memory = group.allocate(kCount * sizeof(float));
    const std::span data(static_cast<float*>(memory.get()), kCount);
    lose_rank_1_in(group, [&] { group.all_reduce(data); });
  }));
}

TEST_CASE("the others fail and name a rank killed in a call in which they do not wait") {
  const int size = GENERATE(2, 3);
  const int root = GENERATE(0, 1);
  check_lost_rank_1(run_ranks(
      size,
      [](ProcessGroup& group, int from) {
        lose_rank_1_in(group, [&] { static_cast<void>(group.broadcast(7, from)); });
      },
      root));
}

TEST_CASE("the others fail and name a rank killed in a message through memory") {
  check_lost_rank_1(run_ranks(2, [](ProcessGroup& group) {
    const std::vector<float> data(std::size_t{1} << 20);
    std::vector<float> place(data.size());
    const int other = 1 - group.rank();
    lose_rank_1_in(group, [&] {
      group.batch_send_recv(
          std::vector{P2POp::send(std::span(data), other), P2POp::recv(std::span(place), other)});
    });
  }));
}

TEST_CASE("the other end of a long message fails and names a rank killed at one end") {
  const bool is_sender = GENERATE(true, false);
  check_lost_rank_1(run_ranks(
      2,
      [](ProcessGroup& group, bool rank_1_sends) {
        std::vector<float> data(std::size_t{8} << 20);
        const int other = 1 - group.rank();
        lose_rank_1_in(group, [&] {
          (group.rank() == 1) == rank_1_sends ? group.send(data, other) : group.recv(data, other);
        });
      },
      is_sender));
}

TEST_CASE("the others' calls time out and name a rank stopped by a signal in a call") {
  const Words command = rank_command([](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 1) std::raise(SIGSTOP);
    static_cast<void>(group.all_reduce(1));
  });
  check_failure(run_ranks_but(1, 3, command, kImpatient), ErrorKind::timed_out,
                {"timed out after 1500 ms in #2 all_reduce", "rank 1 is not answering"});
}

TEST_CASE("a rank that its memory cgroup kills as it takes shared memory is named") {
  const MemoryGroup limited(std::to_string(64 << 20));
  if (limited.path.empty()) return;  // not root, or no such controller
  const auto ended = run_ranks(
      2,
      [](ProcessGroup& group, const std::string& path) {
        group.barrier();
        if (group.rank() == 1) {
          std::ofstream(path + "/memory.swappiness") << 0;
          std::ofstream(path + "/memory.swap.max") << 0;
          std::ofstream(path + "/cgroup.procs") << ::getpid() << std::flush;
        }
        const auto memory = group.allocate(std::size_t{512} << 20);
        if (group.rank() == 1) std::fill_n(static_cast<char*>(memory.get()), 512 << 20, 1);
        group.barrier();
      },
      limited.path.string());
  check_lost_rank_1(ended);
}
