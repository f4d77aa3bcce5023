// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/gpu_wait_reader.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <elf.h>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <thread>
#include <unistd.h>

#include "base/error.h"
#include "launcher/kernel/descendants.h"
#include "launcher/kernel/process_sample.h"
#include "launcher/kernel/stopped_thread.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::milliseconds kTimeToStopThread{500};
constexpr std::chrono::milliseconds kTimeToRun{20};
constexpr std::size_t kMostRunning = 16;  // threads; a process with more of them computes

std::vector<Mapping> mappings_of(pid_t pid) {
  std::vector<Mapping> mappings;
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(file, line);) {
    if (const auto mapping = parse_mapping(line)) mappings.push_back(*mapping);
  }
  return mappings;
}

bool holds_driver(const std::vector<Mapping>& mappings) {
  return std::ranges::any_of(mappings, [](auto& mapping) { return mapping.code == Code::driver; });
}

/// The text of a file of a thread in /proc.
std::string thread_text(pid_t pid, pid_t tid, const char* name) {
  return proc_text(pid, "task/" + std::to_string(tid) + "/" + name);
}

bool is_running(pid_t pid, pid_t tid) {
  const std::optional<Descendant> thread = parse_proc_stat(thread_text(pid, tid, "stat"));
  return thread && thread->state == 'R';
}

/// The CPU time of a thread that stands still, in seconds.
double cpu_of_thread(pid_t pid, pid_t tid) {
  return std::strtod(thread_text(pid, tid, "schedstat").c_str(), nullptr) / 1e9;
}

double cpu_of_process(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// How often the thread has given its processor away to wait.
std::uint64_t sleeps_of_thread(pid_t pid, pid_t tid) {
  return proc_number(thread_text(pid, tid, "status"), "voluntary_ctxt_switches");
}

/// A running thread.
struct Running {
  pid_t tid = 0;
  std::uint64_t sleeps = 0;
};

/// The threads of a process that run; empty also if so many run that the process computes.
std::vector<Running> running_threads(pid_t pid) {
  std::vector<Running> running;
  for (const pid_t tid : numbers_in_folder("/proc/" + std::to_string(pid) + "/task")) {
    if (!is_running(pid, tid)) continue;
    if (running.size() == kMostRunning) return {};
    running.push_back({tid, sleeps_of_thread(pid, tid)});
  }
  return running;
}

/// A process that has loaded the driver.
struct Candidate {
  pid_t pid = 0;
  std::vector<Mapping> mappings;
  std::vector<Running> threads;
};

std::vector<Candidate> candidates_of(const std::vector<pid_t>& pids, bool main_threads_only) {
  std::vector<Candidate> candidates;
  for (const pid_t pid : pids) {
    Candidate process = {pid, mappings_of(pid), {}};
    if (!holds_driver(process.mappings)) continue;
    if (!main_threads_only) {
      process.threads = running_threads(pid);
    } else if (is_running(pid, pid)) {
      process.threads = {{pid, sleeps_of_thread(pid, pid)}};
    }
    if (!process.threads.empty()) candidates.push_back(std::move(process));
  }
  return candidates;
}

struct Registers {
  std::uint64_t pc = 0;
  std::uint64_t stack = 0;
};

/// The registers of a stopped thread.
std::optional<Registers> registers_of(pid_t tid) {
  user_regs_struct all = {};
  iovec where = {&all, sizeof all};
  if (ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &where) != 0) return std::nullopt;
#if defined(__x86_64__)
  return Registers{all.rip, all.rsp};
#elif defined(__aarch64__)
  return Registers{all.pc, all.sp};
#else
  return std::nullopt;
#endif
}

/// The memory from `begin`, up to `end` or the first byte that cannot be read.
std::string memory_of(pid_t pid, std::uint64_t begin, std::uint64_t end) {
  std::string bytes(end - begin, '\0');
  const iovec here = {bytes.data(), bytes.size()};
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address in another process
  const iovec there = {reinterpret_cast<void*>(begin), bytes.size()};
  const ssize_t size = process_vm_readv(pid, &here, 1, &there, 1, 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return bytes;
}

std::optional<GpuWait> wait_of(pid_t pid, pid_t tid, const std::vector<Mapping>& mappings) {
  GpuWait wait;
  wait.tid = tid;
  wait.before = sleeps_of_thread(pid, tid);
  const Result<StoppedThread> stopped = StoppedThread::stop(tid, kTimeToStopThread);
  const auto registers = stopped ? registers_of(tid) : std::nullopt;
  const Mapping* const stack = registers ? mapping_at(mappings, registers->stack) : nullptr;
  if (stack == nullptr) return std::nullopt;
  wait.after = sleeps_of_thread(pid, tid);  // it stands still by now: this stop is one of them
  wait.top = registers->stack;
  const std::uint64_t lowest = std::max(stack->begin, wait.top - std::min(wait.top, kStackBelow));
  wait.begin = (lowest + kStackBlock - 1) / kStackBlock * kStackBlock;
  const std::uint64_t end = std::min(stack->end, wait.top + kStackAbove);
  const std::string bytes = memory_of(pid, std::min(wait.begin, wait.top), end);
  const std::size_t above = wait.top - std::min(wait.begin, wait.top);
  if (bytes.size() <= above) return std::nullopt;
  const Code code =
      running_code(mappings, registers->pc, std::string_view(bytes).substr(above, kCallersBytes));
  wait.in_nccl = code == Code::nccl && tid != pid;  // the main thread is the program's
  if (code != Code::driver && !wait.in_nccl) return std::nullopt;
  if (wait.begin <= wait.top) wait.blocks = stack_blocks(bytes);
  wait.cpu_seconds = cpu_of_thread(pid, tid);
  wait.process_seconds = cpu_of_process(pid);
  return wait;
}

}  // namespace

bool has_driver(pid_t pid) {
  return holds_driver(mappings_of(pid));
}

void find_gpu_waits(const std::vector<pid_t>& pids, bool main_threads_only,
                    const std::function<bool(pid_t, std::vector<GpuWait>)>& found) {
  const std::vector<Candidate> candidates = candidates_of(pids, main_threads_only);
  if (!candidates.empty()) std::this_thread::sleep_for(kTimeToRun);
  for (const auto& [pid, mappings, threads] : candidates) {
    std::vector<GpuWait> waits;
    for (const auto& [tid, sleeps] : threads) {
      if (!is_running(pid, tid) || sleeps_of_thread(pid, tid) != sleeps) continue;
      if (auto wait = wait_of(pid, tid, mappings)) waits.push_back(std::move(*wait));
    }
    if (!waits.empty() && !found(pid, std::move(waits))) return;
  }
}

}  // namespace ddprun::launcher
