// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/gpu_wait.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/hash.h"
#include "base/text.h"

namespace ddprun::launcher {
namespace {

constexpr std::uint64_t kPollingBelow = 8UL * 1024;  // polling changes the stack near its top
constexpr std::uint64_t kPollingAbove = 4UL * 1024;
constexpr std::size_t kFewestBlocks = 8;  // fewer blocks prove nothing
constexpr std::size_t kHashLength = 8;

/// The code in a file, or in "[vdso]".
Code code_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const auto is_any = [name](auto... prefix) { return (name.starts_with(prefix) || ...); };
  if (is_any("libcuda.so")) return Code::driver;
  if (is_any("libnccl", "libibverbs.so", "libmlx5")) return Code::nccl;
  if (is_any("[v", "libc.so", "libc-2", "libpthread", "ld-linux")) return Code::system;
  return Code::program;
}

Code code_at(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const Mapping* const mapping = mapping_at(mappings, address);
  return mapping == nullptr ? Code::none : mapping->code;
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

std::vector<GpuWait> without_stops(const std::vector<GpuWait>& before, std::vector<GpuWait> now,
                                   std::uint64_t most) {
  for (GpuWait& wait : now) {
    const auto old = std::ranges::find(before, wait.tid, &GpuWait::tid);
    if (old != before.end() && wait.before - old->after <= most) wait.before = old->after;
  }
  return now;
}

double seconds_computed(const std::vector<GpuWait>& before, const std::vector<GpuWait>& now) {
  const double seconds = now.back().process_seconds - before.back().process_seconds;
  double waited = 0;
  bool program_waits = false;
  for (const GpuWait& wait : now) {
    const auto same = std::ranges::find_if(
        before, [&wait](const GpuWait& old) { return is_same_wait(old, wait); });
    if (same == before.end()) continue;
    waited += wait.cpu_seconds - same->cpu_seconds;
    program_waits = program_waits || !wait.in_nccl;
  }
  return program_waits ? seconds - waited : seconds;
}

std::string stack_blocks(std::string_view bytes) {
  std::string hashes;
  for (; bytes.size() >= kStackBlock; bytes.remove_prefix(kStackBlock)) {
    Fnv32 hash;
    hash.add(bytes.substr(0, kStackBlock));
    hashes += hex_text(hash.value(), kHashLength);
  }
  return hashes;
}

/// Format: begin-end rwxp offset device inode path
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

const Mapping* mapping_at(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const auto next = std::ranges::upper_bound(mappings, address, {}, &Mapping::begin);
  if (next == mappings.begin() || address >= std::prev(next)->end) return nullptr;
  return &*std::prev(next);
}

Code running_code(const std::vector<Mapping>& mappings, std::uint64_t pc,
                  std::string_view stack_top) {
  const Code code = code_at(mappings, pc);
  if (code != Code::system) return code;
  Code caller = Code::none;
  for (; stack_top.size() >= sizeof pc; stack_top.remove_prefix(sizeof pc)) {
    std::uint64_t word = 0;
    std::copy_n(stack_top.data(), sizeof word, reinterpret_cast<char*>(&word));
    const Code found = code_at(mappings, word);
    if (found == Code::driver) return found;
    if (caller == Code::none && found != Code::system) caller = found;
  }
  return caller;
}

}  // namespace ddprun::launcher
