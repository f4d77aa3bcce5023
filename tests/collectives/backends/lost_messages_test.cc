// SPDX-License-Identifier: Apache-2.0
// Messages that cannot be delivered.
#include <csignal>
#include <cstdint>
#include <iterator>
#include <optional>
#include <poll.h>
#include <span>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/backends/mail.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"

using namespace ddprun::tests;
using ddp::ErrorKind;
using ddp::P2POp;
using ddp::ProcessGroup;
using ddp::Work;

namespace {

enum class Exit { killed, throws, leaves };

/// Rank 1 exits as `how` says while the others have messages with it under way; all fail alike.
void lose_rank_1(ProcessGroup& group, Exit how) {
  const Elements data(kLong);
  static Elements place(kLong);  // until the group is gone, which may use it
  group.barrier();
  std::vector<Work> works;
  if (group.rank() == 1) {
    if (how == Exit::throws) works = {group.irecv(place, 0, 9)};
    group.barrier();
    if (how == Exit::killed) ::raise(SIGKILL);
    if (how == Exit::throws) throw std::runtime_error("thrown by the program");
    return;
  }
  works.push_back(group.irecv(place, 1, 5));
  works.push_back(group.isend(data, 1, 6));
  works.push_back(
      group.batch_isend_irecv(std::vector{P2POp::recv(place, 1, 7), P2POp::send(data, 1, 8)}));
  group.barrier();
  std::optional<std::string> first;
  for (const Work& work : works) {
    try {
      work.wait();
      wrong("a message without its receiver");
    } catch (const ddp::Error& error) {
      check(work.is_completed() && work.error(), "failed, and not completed");
      check(work.error()->what() == std::string(error.what()), "another error than was thrown");
      check(first.value_or(error.what()) == error.what(), "another error than the first");
      first = error.what();
    }
  }
  group.barrier();
}

struct Mismatch {
  void (*send)(ProcessGroup& group);  ///< called by rank 0
  void (*recv)(ProcessGroup& group);  ///< called by rank 1
  std::string sent;
  std::string expected;
};

template <class T>
void send_to_1(ProcessGroup& group, std::size_t count) {
  const std::vector<T> data(count);
  group.send(data, 1, 5);
}

void recv_from_0(ProcessGroup& group, std::size_t count, int tag) {
  Elements data(count);
  group.recv(data, 0, tag);
}

const Mismatch kMismatches[] = {
    {[](ProcessGroup& group) { send_to_1<double>(group, 100); },
     [](ProcessGroup& group) { recv_from_0(group, 100, 5); }, "send float64[100] to rank 1, tag 5",
     "recv float32[100] from rank 0, tag 5"},
    {[](ProcessGroup& group) { send_to_1<float>(group, 100); },
     [](ProcessGroup& group) { recv_from_0(group, 101, 5); }, "send float32[100] to rank 1, tag 5",
     "recv float32[101] from rank 0, tag 5"},
    {[](ProcessGroup& group) { send_to_1<float>(group, kLong); },
     [](ProcessGroup& group) { recv_from_0(group, kLong + 1, 5); },
     "send float32[700001] to rank 1, tag 5", "recv float32[700002] from rank 0, tag 5"},
};

}  // namespace

TEST_CASE("all open messages with a rank that ends fail with the same error, which names it",
          "[tcp]") {
  const auto [how, code] =
      GENERATE(table<Exit, int>({{Exit::killed, 128 + SIGKILL}, {Exit::throws, 2}}));
  const int size = GENERATE(2, 3);
  auto ended =
      run_ranks(size, [](ProcessGroup& group, Exit exit) { lose_rank_1(group, exit); }, how);
  CHECK(ended[1].code == code);
  ended.erase(ended.begin() + 1);
  check_failure(ended, ErrorKind::peer_lost, {"lost rank 1 in "});
}

TEST_CASE("a message with a rank that left the group fails with that reason") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) { lose_rank_1(group, Exit::leaves); });
  check_failure({ended[0]}, ErrorKind::left, {"lost rank 1 in ", ": it has left the group"});
}

TEST_CASE("a receive fails if the rank that announced its message ends") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    std::int64_t process = ::getpid();
    Elements data(kLong);
    if (group.rank() == 1) {
      static_cast<void>(group.isend(data, 0, 5));
      group.send(std::span(&process, 1), 0, 6);
      group.recv(std::span(&process, 1), 0, 7);  // rank 0 only waits for this when we end
      ::_exit(0);
    }
    group.recv(std::span(&process, 1), 1, 6);
    const ddprun::Fd other(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
    pollfd end{.fd = other.get(), .events = POLLIN, .revents = 0};
    group.send(std::span(&process, 1), 1, 7);
    ::poll(&end, 1, -1);
    group.recv(data, 1, 5);
  });
  check_failure({ended[0]}, ErrorKind::peer_lost,
                {"lost rank 1 in recv float32[700001] from rank 1, tag 5"});
}

TEST_CASE("a rank that receives more messages than it holds reports that, and the group fails") {
  const auto ended = run_ranks(2, [](ProcessGroup& group) {
    constexpr int kMany = (1 << 17) + 1;
    std::vector<P2POp> ops;
    if (group.rank() == 0) {
      for (int i = 0; i < kMany; ++i) ops.push_back(P2POp::send(std::span<float>(), 1, i));
    }
    group.batch_send_recv(ops);
    group.barrier();
  });
  check_failure(ended, ErrorKind::mismatch,
                {"rank 1 holds 131072 messages of rank 0 that it does not receive, "
                 "and one more comes, tag 131072"});
}

TEST_CASE("ranks may use as many descriptors as the hard limit allows") {
  check_ranks(6, [] {
    const ddprun::Fd next(::dup(0));
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(next.get()) + 8;
    check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    ProcessGroup group = join();
    both_ways(group);
  });
}

#ifndef __SANITIZE_ADDRESS__  // its companion for types looks at objects through a pipe
TEST_CASE("a rank without descriptors for messages reports that, and the others lose it at once") {
  const Words command = rank_command([](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 0) {
      const ddprun::Fd next(::dup(0));
      const rlimit none = {static_cast<rlim_t>(next.get()), static_cast<rlim_t>(next.get())};
      ::setrlimit(RLIMIT_NOFILE, &none);
    }
    group.barrier();
    both_ways(group);
  });
  const auto ended = run_ranks(
      2, command, {{"DDP_TEST_TIMEOUT_MS", "600000"}, {"DDP_TEST_WITHOUT_SHARED_MEMORY", "1"}});
  INFO(ended[0].output << ended[1].output);
  CHECK(contains(ended[0].output, "rank 0 "));
  CHECK(contains(ended[0].output, "Too many open files"));
  CHECK(contains(ended[1].output, "rank 0 "));
}
#endif

TEST_CASE("a message of another type or count than its receive fails on both sides") {
  const int number = GENERATE(range(0, static_cast<int>(std::size(kMismatches))));
  const auto& [send, recv, sent, expected] = kMismatches[number];
  const auto ended = run_ranks(
      3,
      [](ProcessGroup& group, int which) {
        if (group.rank() == 0) kMismatches[which].send(group);
        if (group.rank() == 1) kMismatches[which].recv(group);
        group.barrier();
      },
      number);
  check_failure(ended, ErrorKind::mismatch,
                {"rank 1 is at " + expected + ", but rank 0 is at " + sent});
}

TEST_CASE("a receive that times out names the message that came instead") {
  const LiveStore store;
  const Words command = rank_command([](ProcessGroup& group) {
    if (group.rank() == 0) send_to_1<float>(group, 100);
    if (group.rank() == 1) recv_from_0(group, 101, 6);
    group.barrier();
  });
  Variables impatient = kImpatient;
  impatient.merge(place(1, 2, store.port()));
  Rank sender(command, place(0, 2, store.port()));
  Rank receiver(command, impatient);
  check_failure(
      {sender.wait(), receiver.wait()}, ErrorKind::timed_out,
      {"rank 1 timed out after 1500 ms waiting for rank 0 in recv float32[101] from rank 0, "
       "tag 6; rank 0 has sent tag 5"});
}

TEST_CASE("a rank that waits for a message of any rank fails if another one is lost", "[tcp]") {
  const auto [how, code, kind] = GENERATE(table<Exit, int, ErrorKind>({
      {Exit::killed, 128 + SIGKILL, ErrorKind::peer_lost},
      {Exit::throws, 2, ErrorKind::peer_lost},
      {Exit::leaves, 0, ErrorKind::left},
  }));
  auto ended = run_ranks(
      3,
      [](ProcessGroup& group, Exit exit) {
        for (int other = 0; other < group.size(); ++other) {  // connects all ranks
          if (other != group.rank()) group.send(group.rank(), other);
        }
        for (int other = 0; other < group.size(); ++other) {
          if (other != group.rank()) static_cast<void>(group.recv<int>(other));
        }
        if (group.rank() == 0) static_cast<void>(group.probe(5));
        if (exit == Exit::leaves) return;
        if (group.rank() == 2) group.barrier();
        if (exit == Exit::killed) ::raise(SIGKILL);
        throw std::runtime_error("thrown by the program");
      },
      how);
  CHECK(ended[1].code == code);
  check_failure({ended[0]}, kind, {"lost rank 1 "});
  if (how == Exit::leaves) {
    CHECK(ended[2].code == 0);
  } else {
    check_failure({ended[2]}, kind, {"lost rank 1 "});
  }
}

TEST_CASE("a rank that waits for a message of any rank fails with the group, for the same reason") {
  const auto ended = run_ranks(3, [](ProcessGroup& group) {
    if (group.rank() == 0) static_cast<void>(group.probe(5));
    Elements data(101);
    if (group.rank() == 1) group.recv(std::span(data).first(100), 2, 5);
    group.send(data, 1, 5);
    group.barrier();
  });
  check_failure(ended, ErrorKind::mismatch, {"rank 1 is at recv float32[100] from rank 2, tag 5"});
}
