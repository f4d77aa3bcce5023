// SPDX-License-Identifier: Apache-2.0
// A program that spawns: spawner SCENARIO. Prints what happened; exit code 10 + kind for a
// ddp::Error that spawn threw.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ddp/process_group.h>
#include <ddp/spawn.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using ddp::init_process_group;
using namespace std::chrono_literals;

void add_up(int rank) {
  auto group = init_process_group({.timeout = 60s});
  std::vector<std::int64_t> data = {rank + 1};
  group.all_reduce(data);
  if (group.rank() != rank || data[0] != group.size() * (group.size() + 1) / 2) {
    throw std::runtime_error("a wrong sum");
  }
}

void meet(auto then) {
  auto group = init_process_group({.timeout = 60s});
  group.barrier();
  then(group);
}

/// One rank fails as the scenario says while the others wait for it.
void fail(const std::string& how, int rank) {
  meet([&](auto& group) {
    if (rank == 1) {
      if (how == "throw") throw std::runtime_error("thrown by the program");
      if (how == "exit") std::_Exit(7);
      std::signal(SIGSEGV, SIG_DFL);  // sanitizers handle it
      std::raise(SIGSEGV);
    }
    group.barrier();
  });
}

/// The others do not notice, and one of them does not listen either.
void ignore(int rank) {
  meet([](auto&) {});
  if (rank == 1) throw std::runtime_error("thrown by the program");
  std::printf("%d waits\n", ::getpid());
  std::fflush(stdout);
  if (rank == 0) std::signal(SIGTERM, SIG_IGN);
  for (;;) ::pause();
}

}  // namespace

int main(int, char** argv) {
  const std::string scenario = argv[1];
  std::thread other;
  if (scenario == "threads") other = std::thread([] { std::this_thread::sleep_for(200ms); });
  try {
    std::printf("once\n");  // stays in the buffer: a file or a pipe is written in blocks
    if (scenario == "well" || scenario == "threads") ddp::spawn(4, add_up);
    if (scenario == "none") ddp::spawn(0, add_up);
    if (scenario == "throw" || scenario == "exit" || scenario == "signal") {
      ddp::spawn(3, [&](int rank) { fail(scenario, rank); });
    }
    if (scenario == "ignore") ddp::spawn(3, ignore, {.grace_period = 100ms});
    if (scenario == "killed") {
      const pid_t parent = ::getpid();
      ddp::spawn(3, [&](int rank) {
        meet([&](auto& group) {
          std::printf("%d waits\n", ::getpid());
          std::fflush(stdout);
          group.barrier();
          if (rank == 0) ::kill(parent, SIGKILL);
          for (;;) ::pause();
        });
      });
    }
  } catch (const ddp::Error& error) {
    std::printf("%s\n", error.what());
    if (other.joinable()) other.join();
    return 10 + static_cast<int>(error.kind());
  }
  std::printf("all ended\n");
  return 0;
}
