// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Threads that wait for a GPU: NVIDIA's driver polls for it at 100 % CPU, unless it is told to
// block, and so does NCCL. To the kernel they look as if they computed. Pure.

namespace ddprun::launcher {

/// A thread that runs inside the driver, or inside NCCL, at one moment.
struct GpuWait {
  int tid = 0;
  bool in_nccl = false;        ///< one of its own, which moves data between hosts
  double cpu_seconds = 0;      ///< so far
  double process_seconds = 0;  ///< of its process, at the same moment
  std::uint64_t before = 0;    ///< how often it had slept before this look, which makes it sleep
  std::uint64_t after = 0;     ///< and after it
  std::uint64_t top = 0;       ///< its stack pointer
  std::uint64_t begin = 0;     ///< the address of the first of `blocks`
  std::string blocks;          ///< a hash of each block of its stack, 8 characters each
};

/// Whether the thread has been in one and the same call of the driver from one look to another. One
/// that has returned from it has slept for something else, or has called other functions, whose
/// traces are in its stack: only the few calls of the polling itself leave theirs near its top.
bool is_same_wait(const GpuWait& before, const GpuWait& now);

/// `now`, of threads that this program itself has stopped up to `most` times since `before`: so
/// many sleeps do not count.
std::vector<GpuWait> without_stops(const std::vector<GpuWait>& before, std::vector<GpuWait> now,
                                   std::uint64_t most);

/// The CPU time of a process between two looks, at each of which some of its threads waited:
/// without that of those which waited all the time. The time of NCCL's own threads counts unless
/// one of the program's waits: they may move its data while it sleeps.
double seconds_computed(const std::vector<GpuWait>& before, const std::vector<GpuWait>& now);

/// The bytes of a stack that `blocks` of a look are about.
inline constexpr std::uint64_t kStackBlock = 512;
inline constexpr std::uint64_t kStackBelow = 64UL * 1024;  // the stack pointer
inline constexpr std::uint64_t kStackAbove = 32UL * 1024;

/// `blocks` of these bytes; what is less than a block at their end does not count.
std::string stack_blocks(std::string_view bytes);

/// What of a process's memory is whose code.
enum class Code { none, system, driver, nccl, program };

struct Mapping {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  Code code = Code::none;  ///< none: it cannot be executed
};

/// A line of /proc/PID/maps; nullopt: malformed.
std::optional<Mapping> parse_mapping(const std::string& line);

/// The one at `address` of those in the order of addresses; nullptr: none.
const Mapping* mapping_at(const std::vector<Mapping>& mappings, std::uint64_t address);

/// The bytes above a stack pointer in which the caller of a short function of the C library is.
inline constexpr std::size_t kCallersBytes = 256;

/// Whose code runs at `pc`: that which has called the C library, if it is in that. Its caller's
/// address is among the first of `stack_top`, beside others that earlier calls have left there: if
/// one is the driver's, that counts. None: unknown.
Code running_code(const std::vector<Mapping>& mappings, std::uint64_t pc,
                  std::string_view stack_top);

}  // namespace ddprun::launcher
