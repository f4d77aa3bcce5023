// SPDX-License-Identifier: Apache-2.0
#include "launcher/gpu_wait.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <dirent.h>
#include <elf.h>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include "launcher/descendants.h"
#include "launcher/stopped_thread.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::milliseconds kTimeToStopThread{100};
constexpr std::size_t kMostRunning = 16;           // threads; a process with more of them computes
constexpr std::uint64_t kSeenBelow = 32UL * 1024;  // of a stack, from its pointer
constexpr std::uint64_t kSeenAbove = 32UL * 1024;
constexpr std::uint64_t kPollingBelow = 2UL * 1024;  // which the polling itself may change
constexpr std::uint64_t kPollingAbove = 4UL * 1024;
constexpr std::size_t kFewestBlocks = 8;  // that tell something
constexpr std::size_t kHashLength = 8;
constexpr std::size_t kCallersBytes = 1024;  // in which the caller of the C library is

enum class Code { none, system, driver, nccl, program };

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Code code = Code::none;  // none: it is not executable
};

/// Of a file, or of "[vdso]".
Code code_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto is_any = [name](auto... prefix) { return (name.starts_with(prefix) || ...); };
  if (is_any("libcuda.so")) return Code::driver;
  if (is_any("libnccl", "libibverbs.so", "libmlx5")) return Code::nccl;
  if (is_any("[v", "libc.so", "libc-2", "libpthread", "ld-linux")) return Code::system;
  return Code::program;
}

/// begin-end rwxp offset device inode path
std::optional<Mapping> parse_mapping(const std::string& line) {
  unsigned long long begin = 0, end = 0;
  char rights[5] = {};
  int path = 0;
  if (std::sscanf(line.c_str(), "%llx-%llx %4s %*s %*s %*s %n", &begin, &end, rights, &path) < 3) {
    return std::nullopt;
  }
  const std::size_t at = std::min(static_cast<std::size_t>(path), line.size());
  return Mapping{begin, end,
                 rights[2] == 'x' ? code_of(std::string_view(line).substr(at)) : Code::none};
}

std::vector<Mapping> mappings_of(pid_t pid) {
  std::vector<Mapping> mappings;
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(file, line);) {
    if (const auto mapping = parse_mapping(line)) mappings.push_back(*mapping);
  }
  return mappings;
}

/// The one at `address`, in the order of addresses; nullptr: none.
const Mapping* mapping_at(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const auto next = std::ranges::upper_bound(mappings, address, {}, &Mapping::begin);
  if (next == mappings.begin() || address >= std::prev(next)->end) return nullptr;
  return &*std::prev(next);
}

Code code_at(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const Mapping* const mapping = mapping_at(mappings, address);
  return mapping == nullptr ? Code::none : mapping->code;
}

struct ThreadUse {
  char state = '?';
  double cpu_seconds = 0;
};

std::string thread_file(pid_t pid, pid_t tid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/task/" + std::to_string(tid) + "/" + name;
}

ThreadUse use_of_thread(pid_t pid, pid_t tid) {
  std::ifstream file(thread_file(pid, tid, "stat"));
  std::string text;
  std::getline(file, text);
  unsigned long long user = 0, system = 0;
  char state = '?';
  constexpr const char* kFields = " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu";
  const std::size_t name_end = text.rfind(')');
  if (name_end == text.npos ||
      std::sscanf(text.c_str() + name_end + 1, kFields, &state, &user, &system) != 3) {
    return {};
  }
  return {state, static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK))};
}

/// How often it has given its processor away in order to wait.
std::uint64_t sleeps_of_thread(pid_t pid, pid_t tid) {
  constexpr std::string_view kName = "voluntary_ctxt_switches:";
  std::ifstream file(thread_file(pid, tid, "status"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kName)) return std::strtoull(line.c_str() + kName.size(), nullptr, 10);
  }
  return 0;
}

struct CloseTasks {
  void operator()(DIR* directory) const { closedir(directory); }
};

std::vector<pid_t> running_threads(pid_t pid) {
  std::vector<pid_t> running;
  const std::unique_ptr<DIR, CloseTasks> tasks(
      opendir(("/proc/" + std::to_string(pid) + "/task").c_str()));
  while (const dirent* entry = tasks ? readdir(tasks.get()) : nullptr) {
    const pid_t tid = std::atoi(entry->d_name);
    if (tid > 0 && use_of_thread(pid, tid).state == 'R') running.push_back(tid);
  }
  return running;
}

struct Registers {
  std::uint64_t pc = 0;
  std::uint64_t stack = 0;
};

/// Of a stopped thread.
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

/// As much as can be read.
std::string memory_of(pid_t pid, std::uint64_t begin, std::uint64_t end) {
  std::string bytes(end - begin, '\0');
  const iovec here = {bytes.data(), bytes.size()};
  const iovec there = {reinterpret_cast<void*>(begin), bytes.size()};
  const ssize_t size = process_vm_readv(pid, &here, 1, &there, 1, 0);
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return bytes;
}

/// Whose code runs: that which called the C library, if it is in that. The first address of other
/// code on the stack most likely is its caller's.
Code running_code(const std::vector<Mapping>& mappings, std::uint64_t pc,
                  std::string_view stack_top) {
  Code code = code_at(mappings, pc);
  for (std::size_t at = 0; code == Code::system || code == Code::none; at += sizeof pc) {
    if (at + sizeof pc > std::min(stack_top.size(), kCallersBytes)) return Code::none;
    std::uint64_t word = 0;
    std::copy_n(stack_top.data() + at, sizeof word, reinterpret_cast<char*>(&word));
    code = code_at(mappings, word);
  }
  return code;
}

std::string hashes_of(std::string_view bytes) {
  std::string hashes;
  for (; bytes.size() >= kStackBlock; bytes.remove_prefix(kStackBlock)) {
    std::uint32_t hash = 2166136261U;  // FNV-1a
    for (const char byte : bytes.substr(0, kStackBlock)) {
      hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
    }
    std::array<char, kHashLength + 1> text{};
    std::snprintf(text.data(), text.size(), "%08x", hash);
    hashes += text.data();
  }
  return hashes;
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
  const std::uint64_t lowest = std::max(stack->begin, wait.top - std::min(wait.top, kSeenBelow));
  wait.begin = (lowest + kStackBlock - 1) / kStackBlock * kStackBlock;
  const std::uint64_t end = std::min(stack->end, wait.top + kSeenAbove);
  const std::string bytes = memory_of(pid, std::min(wait.begin, wait.top), end);
  const std::size_t above = wait.top - std::min(wait.begin, wait.top);
  if (bytes.size() <= above) return std::nullopt;
  const Code code = running_code(mappings, registers->pc, std::string_view(bytes).substr(above));
  if (code != Code::driver && code != Code::nccl) return std::nullopt;
  wait.in_nccl = code == Code::nccl;
  if (wait.begin <= wait.top) wait.blocks = hashes_of(bytes);
  wait.cpu_seconds = use_of_thread(pid, tid).cpu_seconds;
  return wait;
}

}  // namespace

bool is_same_wait(const GpuWait& before, const GpuWait& now) {
  if (before.tid != now.tid || before.in_nccl != now.in_nccl) return false;
  if (now.in_nccl) return true;  // its program waits elsewhere
  if (before.after != now.before) return false;
  const std::uint64_t hole = std::min(before.top, now.top) - kPollingBelow;
  const std::uint64_t hole_end = std::max(before.top, now.top) + kPollingAbove;
  const std::string_view old_blocks = before.blocks;
  std::size_t same = 0;
  for (std::size_t at = 0; at + kHashLength <= now.blocks.size(); at += kHashLength) {
    const std::uint64_t address = now.begin + at / kHashLength * kStackBlock;
    const std::uint64_t old = (address - before.begin) / kStackBlock * kHashLength;
    if (address < before.begin || old + kHashLength > old_blocks.size()) continue;
    if (address + kStackBlock > hole && address < hole_end) continue;
    if (old_blocks.substr(old, kHashLength) != now.blocks.substr(at, kHashLength)) return false;
    ++same;
  }
  return same >= kFewestBlocks;
}

double seconds_waited(const std::vector<GpuWait>& before, const std::vector<GpuWait>& now) {
  double seconds = 0;
  for (const GpuWait& wait : now) {
    const auto same = std::ranges::find_if(
        before, [&wait](const GpuWait& old) { return is_same_wait(old, wait); });
    if (same != before.end()) seconds += wait.cpu_seconds - same->cpu_seconds;
  }
  return seconds;
}

bool uses_gpu(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(file, line);) {
    if (line.find("/libcuda.so") != line.npos) return true;
  }
  return false;
}

std::vector<GpuWait> gpu_waits(pid_t pid) {
  std::vector<GpuWait> waits;
  const std::vector<pid_t> running = running_threads(pid);
  if (running.empty() || running.size() > kMostRunning) return waits;
  const std::vector<Mapping> mappings = mappings_of(pid);
  const auto is_driver = [](const Mapping& mapping) { return mapping.code == Code::driver; };
  if (std::ranges::none_of(mappings, is_driver)) return waits;
  for (const pid_t tid : running) {
    if (auto wait = wait_of(pid, tid, mappings)) waits.push_back(std::move(*wait));
  }
  return waits;
}

}  // namespace ddprun::launcher
