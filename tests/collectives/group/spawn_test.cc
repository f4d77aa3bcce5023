// SPDX-License-Identifier: Apache-2.0
#include "ddp/spawn.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/ranks.h"
#include "tests/contains.h"
#include "tests/store/bytes.h"

using namespace std::chrono_literals;
using namespace ddprun::tests;
namespace bytes = ddprun::store::bytes;
using ddp::ErrorKind;
using ddp::ProcessGroup;
using ddp::StartMethod;

namespace {

/// Runs a process that spawns as `body` does. Returns when every process that could write to the
/// output has ended.
template <RankBody F, class... Args>
Ended run_spawner(F body, const Args&... arguments) {
  return Rank(rank_command(body, arguments...), {}).wait();
}

void add_up_ranks(int rank) {
  ProcessGroup group = join();
  std::vector<std::int64_t> data = {rank + 1};
  group.all_reduce(data);
  if (group.rank() != rank || data[0] != group.size() * (group.size() + 1) / 2) {
    throw std::runtime_error("a wrong sum");
  }
}

/// The body of a thread.
void wait_until_stopped(const std::stop_token& stopped) {
  std::atomic<bool> done{false};
  const std::stop_callback wake(stopped, [&] {
    done = true;
    done.notify_one();
  });
  done.wait(false);
}

void print_waiting() {
  std::printf("%d waits\n", ::getpid());
  std::fflush(stdout);
}

constexpr unsigned kOtherUser = 54'321;

/// The number of bytes that a process of `user` gets from the store for its first request: 1, or 0
/// if the connection is closed.
int reply_to(unsigned user) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const bool is_user = ::syscall(SYS_setresuid, user, user, user) == 0;
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string request = bytes::kHello + bytes::add("seen", 1);
    char byte = 0;
    const bool asked = is_user && ::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 &&
                       ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0;
    ::_exit(asked ? static_cast<int>(::recv(fd, &byte, 1, 0) == 1) : 2);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

enum class FailureBy { exception, exit_code, signal };

}  // namespace

TEST_CASE("spawned processes find each other, and spawn returns when all have ended") {
  const Ended ended = run_spawner([] {
    std::printf("once\n");  // stays in the buffer: a file or a pipe is written in blocks
    ddp::spawn(4, add_up_ranks);
    std::printf("all ended\n");
  });
  CHECK(ended.code == 0);
  CHECK(ended.output == "once\nall ended\n");  // no process printed what was in our buffer
}

TEST_CASE("the store of spawned processes closes connections of another user of the host") {
  if (::geteuid() != 0) {
    WARN("to be another user needs root");
    return;
  }
  const Ended ended = run_spawner([] {
    ddp::spawn(1, [](int) {
      std::printf("own %d, another's %d\n", reply_to(::geteuid()), reply_to(kOtherUser));
    });
  });
  CHECK(ended.code == 0);
  CHECK(contains(ended.output, "own 1, another's 0"));
}

TEST_CASE("a spawn without free descriptors reports that") {
  if (!variable_or("UBSAN_OPTIONS", "").empty()) {
    WARN("UBSan reads objects through a pipe, for which it needs descriptors");
    return;
  }
  const Ended ended = run_spawner([] {
    const int next = ::dup(0);
    ::close(next);
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = static_cast<rlim_t>(next);
    check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
    ddp::spawn(1, [](int) {});
  });
  check_failure({ended}, ErrorKind::system,
                {"ddp: spawn: cannot read /proc/self/task: Too many open files\n"});
}

TEST_CASE("the first failure of a spawned process is thrown with its text") {
  const auto [by, text] = GENERATE(table<FailureBy, std::string>({
      {FailureBy::exception, "ddp: spawn: rank 1 failed: thrown by the program"},
      {FailureBy::exit_code, "ddp: spawn: rank 1 ended with exit code 7"},
      {FailureBy::signal, "ddp: spawn: rank 1 was killed by SIGSEGV"},
  }));
  const Ended ended = run_spawner(
      [](FailureBy how) {
        ddp::spawn(3, [how](int rank) {
          ProcessGroup group = join();
          group.barrier();
          if (rank == 1) {
            if (how == FailureBy::exception) throw std::runtime_error("thrown by the program");
            if (how == FailureBy::exit_code) std::_Exit(7);
            std::signal(SIGSEGV, SIG_DFL);  // sanitizers handle it otherwise
            std::raise(SIGSEGV);
          }
          group.barrier();
        });
      },
      by);
  check_failure({ended}, ErrorKind::peer_lost, {text + "\n"});
}

TEST_CASE("a failure stops the others, finally by SIGKILL") {
  const Ended ended = run_spawner([] {  // ends only when all processes do
    const auto body = [](int rank) {
      join().barrier();
      if (rank == 1) throw std::runtime_error("thrown by the program");
      print_waiting();
      if (rank == 0) std::signal(SIGTERM, SIG_IGN);
      for (;;) ::pause();
    };
    ddp::spawn(3, body, {.grace_period = 100ms});
  });
  check_failure({ended}, ErrorKind::peer_lost, {"rank 1 failed: thrown by the program"});
}

TEST_CASE("spawned processes die with the process that spawned them") {
  const Ended ended = run_spawner([] {  // its output ends when the last of them is gone
    ddp::spawn(3, [parent = ::getpid()](int rank) {
      ProcessGroup group = join();
      print_waiting();
      group.barrier();
      if (rank == 0) ::kill(parent, SIGKILL);
      for (;;) ::pause();
    });
  });
  CHECK(ended.code == 128 + SIGKILL);
  CHECK(contains(ended.output, "waits"));
}

TEST_CASE("spawn refuses a process with other threads") {
  const Ended ended = run_spawner([] {
    const std::jthread other(wait_until_stopped);
    ddp::spawn(4, add_up_ranks);
  });
  check_failure({ended}, ErrorKind::usage, {"this process runs ", "StartMethod::exec"});
}

TEST_CASE("a program with other threads spawns processes that run it again") {
  const Ended ended = run_spawner([] {
    const std::jthread other(wait_until_stopped);
    const std::string own = "in a process that has other threads";
    ddp::spawn(4, [&](int rank) { rank < 0 ? wrong(own) : add_up_ranks(rank); },
               {.start_method = StartMethod::exec});
    ddp::spawn(2,
               [&](int rank) {
                 add_up_ranks(rank);
                 std::printf("%d of the second call, %s\n", rank, own.c_str());
               },
               {.start_method = StartMethod::exec});
    std::printf("all ended\n");
  });
  INFO(ended.output);
  CHECK(ended.code == 0);
  std::string lines = ended.output;
  for (const char* rank : {"0", "1"}) {
    const std::string line =
        std::string(rank) + " of the second call, in a process that has other threads\n";
    REQUIRE(contains(lines, line));
    lines.erase(lines.find(line), line.size());
  }
  CHECK(lines == "all ended\n");
}

TEST_CASE("the first failure of a process that runs the program again is thrown with its text") {
  const auto [by, text] = GENERATE(table<FailureBy, std::string>({
      {FailureBy::exception, "ddp: spawn: rank 1 failed: thrown by the program"},
      {FailureBy::exit_code, "ddp: spawn: rank 1 ended with exit code 7"},
  }));
  const Ended ended = run_spawner(
      [](FailureBy how) {
        ddp::spawn(3,
                   [how](int rank) {
                     ProcessGroup group = join();
                     group.barrier();
                     if (rank == 1 && how == FailureBy::exit_code) std::_Exit(7);
                     if (rank == 1) throw std::runtime_error("thrown by the program");
                     group.barrier();
                   },
                   {.start_method = StartMethod::exec});
      },
      by);
  check_failure({ended}, ErrorKind::peer_lost, {text + "\n"});
}

TEST_CASE("a program that does not come to spawn when it runs again is an error") {
  const Ended ended = run_spawner([] {
    if (std::getenv("WORLD_SIZE") != nullptr) std::_Exit(0);
    ddp::spawn(2, add_up_ranks, {.start_method = StartMethod::exec});
  });
  check_failure({ended}, ErrorKind::peer_lost, {"ended before it called spawn\n"});
}

TEST_CASE("a spawned process cannot run the program again") {
  const auto method = GENERATE(StartMethod::fork, StartMethod::exec);
  const Ended ended = run_spawner(
      [](StartMethod outer) {
        ddp::spawn(2, [](int) { ddp::spawn(2, add_up_ranks, {.start_method = StartMethod::exec}); },
                   {.start_method = outer});
      },
      method);
  check_failure({ended}, ErrorKind::peer_lost, {"failed: ddp: spawn: a spawned process cannot"});
}

TEST_CASE("spawn refuses to make no process") {
  const Ended ended = run_spawner([] { ddp::spawn(0, add_up_ranks); });
  check_failure({ended}, ErrorKind::usage, {"nprocs must be above 0, not 0"});
}
