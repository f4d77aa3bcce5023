// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/gpu_wait.h"

#include <algorithm>
#include <unistd.h>

#include "launcher/devices/gpu_wait_reader.h"
#include "launcher/process/process_use.h"
#include "tests/catch.h"

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t kTop = 0x7ffc'0000'8100;
constexpr std::size_t kBlocks = 128;

/// A wait with a stack from 32 KiB below its top.
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

/// The next sample if nothing has happened.
GpuWait next_of(const GpuWait& before, double cpu) {
  GpuWait next = before;
  next.before = before.after;
  next.after = before.after + 1;
  next.cpu_seconds = cpu;
  return next;
}

/// The block at this address.
char& block_at(GpuWait& wait, std::uint64_t address) {
  return wait.blocks[(address - wait.begin) / kStackBlock * 8];
}

TEST_CASE("a thread that polls for a GPU changes its stack only near its top") {
  const GpuWait before = wait_of_thread(11, 1);
  GpuWait now = next_of(before, 2);
  CHECK(is_same_wait(before, now));
  now.top += 160;
  block_at(now, kTop - 7'000) = 'x';
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
    block_at(now, kTop - 12'000) = 'x';
  }
  SECTION("was called by another function") {
    block_at(now, kTop + 8'000) = 'x';
  }
  SECTION("is far from where it was") {
    now.top += 64'000;
    now.begin += 64'000 / kStackBlock * kStackBlock;
  }
  SECTION("is another thread") {
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

TEST_CASE("stopping a thread to read its stack does not count as its sleep") {
  const std::vector<GpuWait> before = {wait_of_thread(11, 1)};
  std::vector<GpuWait> now = {next_of(before[0], 2), wait_of_thread(12, 1)};
  now[0].before += 2;
  CHECK_FALSE(is_same_wait(before[0], now[0]));
  CHECK_FALSE(is_same_wait(before[0], without_stops(before, now, 1)[0]));  // one sleep is its own
  now = without_stops(before, now, 2);
  CHECK(is_same_wait(before[0], now[0]));
  block_at(now[0], kTop - 12'000) = 'x';
  CHECK_FALSE(is_same_wait(before[0], now[0]));
  CHECK(now[1].before == 7);
}

TEST_CASE("blocks of a stack are compared by their addresses") {
  const GpuWait before = wait_of_thread(11, 1);
  GpuWait now = next_of(before, 2);
  block_at(now, kTop) = 'x';
  now.begin += 2 * kStackBlock;
  now.blocks.erase(0, 16);
  CHECK(is_same_wait(before, now));
  now.begin += kStackBlock;  // another block differs now, but still near the top
  CHECK(is_same_wait(before, now));
  now.begin += 16 * kStackBlock;
  CHECK_FALSE(is_same_wait(before, now));
}

std::string bytes_of(std::uint64_t word) {
  std::string bytes(sizeof word, '\0');
  std::copy_n(reinterpret_cast<const char*>(&word), sizeof word, bytes.data());
  return bytes;
}

TEST_CASE("running code belongs to its mapping's owner, or to the caller of the C library") {
  std::vector<Mapping> mappings;
  for (const char* line :
       {"1000-2000 r-xp 00000000 08:01 5   /home/me/train",
        "2000-3000 rw-p 00000000 08:01 5   /usr/lib/libcuda.so.580.159.04",
        "3000-4000 r-xp 00000000 08:01 6   /usr/lib/libcuda.so.580.159.04",
        "4000-5000 r-xp 00000000 08:01 7   /v/lib/libcudart.so.12",
        "5000-6000 r-xp 00000000 08:01 8   /usr/lib/libnccl.so.2",
        "6000-7000 r-xp 00000000 08:01 9   /usr/lib/x86_64-linux-gnu/libc.so.6",
        "7000-8000 r-xp 00000000 00:00 0   [vdso]", "8000-9000 r-xp 00000000 00:00 0"}) {
    const auto mapping = parse_mapping(line);
    REQUIRE(mapping);
    mappings.push_back(*mapping);
  }
  CHECK_FALSE(parse_mapping("Kernel: 1"));
  CHECK(running_code(mappings, 0x1234, "") == Code::program);
  CHECK(running_code(mappings, 0x3234, "") == Code::driver);
  CHECK(running_code(mappings, 0x4234, "") == Code::program);
  CHECK(running_code(mappings, 0x5234, "") == Code::nccl);
  CHECK(running_code(mappings, 0x8234, "") == Code::program);
  CHECK(running_code(mappings, 0x6234, "") == Code::none);
  const std::string driver = bytes_of(17) + bytes_of(0x6100) + bytes_of(0x2100) + bytes_of(0x3100);
  CHECK(running_code(mappings, 0x7234, driver + bytes_of(0x1100)) == Code::driver);
  CHECK(running_code(mappings, 0x6234, bytes_of(0x1100) + driver) == Code::driver);
  CHECK(running_code(mappings, 0x6234, bytes_of(0x5100) + bytes_of(0x1100)) == Code::nccl);
  CHECK(running_code(mappings, 0x6234, std::string(100, '\0')) == Code::none);
  CHECK(running_code(mappings, 0x1234, driver) == Code::program);
  CHECK(running_code(mappings, 0x9234, "") == Code::none);
}

TEST_CASE("the CPU time of threads that wait for a GPU is not progress of their process") {
  ProcessUse before{.pid = 5, .cpu_seconds = 50, .waits = {wait_of_thread(11, 8)}};
  before.waits[0].process_seconds = 10;
  ProcessUse now = before;
  now.cpu_seconds = 60;
  now.waits = {next_of(before.waits[0], 17.9)};
  now.waits[0].process_seconds = 20;
  CHECK_FALSE(change_of({before}, {now}, 10).cpu);
  now.waits[0].process_seconds = 21;  // another thread computes
  CHECK(change_of({before}, {now}, 10).cpu);
  GpuWait proxy = wait_of_thread(12, 0);
  proxy.in_nccl = true;
  proxy.process_seconds = 10;
  before.waits.push_back(proxy);
  proxy.cpu_seconds = 1;
  proxy.process_seconds = 21;
  proxy.blocks.clear();
  now.waits.push_back(proxy);
  CHECK_FALSE(change_of({before}, {now}, 10).cpu);
  now.waits[0].before += 1;
  CHECK(change_of({before}, {now}, 10).cpu);
  before.waits = {before.waits[1]};  // NCCL moves data while the program sleeps
  now.waits = {now.waits[1]};
  CHECK(change_of({before}, {now}, 10).cpu);
  now.waits.clear();
  CHECK(change_of({before}, {now}, 10).cpu);
}

TEST_CASE("a process that has not loaded the driver waits for no GPU") {
  bool found = false;
  find_gpu_waits({getpid()}, false,
                 [&](pid_t, const std::vector<GpuWait>&) { return found = true; });
  CHECK_FALSE(found);
}

}  // namespace
}  // namespace ddprun::launcher
