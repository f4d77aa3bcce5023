// SPDX-License-Identifier: Apache-2.0
#include "launcher/gpu_wait.h"

#include <unistd.h>

#include "launcher/process_use.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t kTop = 0x7ffc'0000'8100;
constexpr std::size_t kBlocks = 128;

/// Of a stack that is seen from 32 KiB below its top.
GpuWait wait_of_thread(pid_t tid, double cpu) {
  GpuWait wait;
  wait.tid = tid;
  wait.cpu_seconds = cpu;
  wait.before = 7;
  wait.after = 8;
  wait.top = kTop;
  wait.begin = 0x7ffc'0000'0200;
  for (std::size_t i = 0; i < kBlocks; ++i) wait.blocks += "0123abcd";
  return wait;
}

/// As the next look sees it if nothing has happened.
GpuWait next_of(const GpuWait& before, double cpu) {
  GpuWait next = before;
  next.before = before.after;
  next.after = before.after + 1;
  next.cpu_seconds = cpu;
  return next;
}

/// The block with this address.
char& block_at(GpuWait& wait, std::uint64_t address) {
  return wait.blocks[(address - wait.begin) / kStackBlock * 8];
}

TEST_CASE("a thread that polls for a GPU changes its stack only near its top") {
  const GpuWait before = wait_of_thread(11, 1);
  GpuWait now = next_of(before, 2);
  CHECK(is_same_wait(before, now));
  now.top += 160;
  block_at(now, kTop - 1'500) = 'x';
  block_at(now, kTop + 3'000) = 'x';
  CHECK(is_same_wait(before, now));
}

TEST_CASE("a thread that has slept, called something else or returned is in another wait") {
  const GpuWait before = wait_of_thread(11, 1);
  GpuWait now = next_of(before, 2);
  SECTION("slept") {
    now.before += 1;
  }
  SECTION("called something that has a larger frame") {
    block_at(now, kTop - 8'000) = 'x';
  }
  SECTION("was called by another function") {
    block_at(now, kTop + 8'000) = 'x';
  }
  SECTION("is far from where it was") {
    now.top += 64'000;
    now.begin += 64'000 / kStackBlock * kStackBlock;
  }
  SECTION("is another one") {
    now.tid = 12;
  }
  SECTION("has no stack that could be read") {
    now.blocks.clear();
  }
  SECTION("is in NCCL") {
    now.in_nccl = true;
  }
  CHECK_FALSE(is_same_wait(before, now));
}

TEST_CASE("blocks of a stack are compared by their addresses") {
  const GpuWait before = wait_of_thread(11, 1);
  GpuWait now = next_of(before, 2);
  block_at(now, kTop) = 'x';
  now.begin += 2 * kStackBlock;
  now.blocks.erase(0, 16);
  CHECK(is_same_wait(before, now));
  now.begin += kStackBlock;  // the changed one is another one now, but still near the top
  CHECK(is_same_wait(before, now));
  now.begin += 8 * kStackBlock;
  CHECK_FALSE(is_same_wait(before, now));
}

TEST_CASE("the CPU time of threads that wait for a GPU is none of their process's progress") {
  ProcessUse before{.pid = 5, .cpu_seconds = 10, .waits = {wait_of_thread(11, 8)}};
  ProcessUse now = before;
  now.cpu_seconds = 20;
  now.waits = {next_of(before.waits[0], 17.9)};
  CHECK_FALSE(change_of({before}, {now}, 10).cpu);
  now.cpu_seconds = 21;  // another thread computes
  CHECK(change_of({before}, {now}, 10).cpu);
  GpuWait proxy = wait_of_thread(12, 0);
  proxy.in_nccl = true;
  before.waits.push_back(proxy);
  proxy.cpu_seconds = 1;
  proxy.blocks.clear();
  now.waits.push_back(proxy);
  CHECK_FALSE(change_of({before}, {now}, 10).cpu);
  now.waits[0].before += 1;
  CHECK(change_of({before}, {now}, 10).cpu);
}

TEST_CASE("a process that has not loaded the driver waits for no GPU") {
  CHECK_FALSE(uses_gpu(getpid()));
  CHECK(gpu_waits(getpid()).empty());
}

}  // namespace
}  // namespace ddprun::launcher
