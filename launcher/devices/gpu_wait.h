// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Threads that wait for a GPU. NVIDIA's driver polls for it at 100 % CPU, unless told to block, and
// so does NCCL. To the kernel these threads seem to compute. Pure.

namespace ddprun::launcher {

/// A sample of a thread that runs inside the driver, or inside NCCL.
struct GpuWait {
  int tid = 0;
  bool in_nccl = false;        ///< a thread of NCCL, which moves data between hosts
  double cpu_seconds = 0;      ///< of the thread, so far
  double process_seconds = 0;  ///< of its process, at the same moment
  std::uint64_t before = 0;    ///< how often it had slept before it was stopped for this sample
  std::uint64_t after = 0;     ///< and after that stop, which is one of its sleeps
  std::uint64_t top = 0;       ///< its stack pointer
  std::uint64_t begin = 0;     ///< the address of the first of `blocks`
  std::string blocks;          ///< a hash of each block of its stack, 8 characters each
};

/// Whether the thread was in the same call of the driver in both samples. A thread that has
/// returned from it has slept for something else, or has called other functions, which leave traces
/// in its stack. The few calls of polling leave traces only near its top.
bool is_same_wait(const GpuWait& before, const GpuWait& now);

/// `now` without the sleeps that this program caused: it has stopped the threads up to `most` times
/// since `before`, so that many do not count.
std::vector<GpuWait> without_stops(const std::vector<GpuWait>& before, std::vector<GpuWait> now,
                                   std::uint64_t most);

/// The CPU time of a process between two samples, without the time of threads that waited all the
/// time. The time of NCCL's threads counts unless a thread of the program waits: they may move its
/// data while it sleeps.
double seconds_computed(const std::vector<GpuWait>& before, const std::vector<GpuWait>& now);

/// The size of a block that is hashed into `blocks`, and the range of the stack around the pointer.
inline constexpr std::uint64_t kStackBlock = 512;
inline constexpr std::uint64_t kStackBelow = 64UL * 1024;  // below the stack pointer
inline constexpr std::uint64_t kStackAbove = 32UL * 1024;

/// `blocks` for these bytes; ignores an incomplete block at their end.
std::string stack_blocks(std::string_view bytes);

/// Who owns the code in a mapping.
enum class Code { none, system, driver, nccl, program };

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Code code = Code::none;  ///< none: not executable
};

/// Parses a line of /proc/PID/maps; nullopt: malformed.
std::optional<Mapping> parse_mapping(const std::string& line);

/// The mapping that contains `address`; `mappings` are sorted by address. nullptr: no mapping does.
const Mapping* mapping_at(const std::vector<Mapping>& mappings, std::uint64_t address);

/// Within these bytes above the stack pointer is the caller of a short function of the C library.
inline constexpr std::size_t kCallersBytes = 256;

/// Whose code runs at `pc`; if that is the C library, whose code called it. The caller's address is
/// among the first of `stack_top`, beside others that earlier calls left there. If one of them is
/// the driver's, the driver is the caller. None: unknown.
Code running_code(const std::vector<Mapping>& mappings, std::uint64_t pc,
                  std::string_view stack_top);

}  // namespace ddprun::launcher
