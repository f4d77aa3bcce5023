// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

// Threads that wait for a GPU: NVIDIA's driver polls for it at 100 % CPU, unless it is told to
// block, and so does NCCL. To the kernel they look as if they computed.

namespace ddprun::launcher {

/// A thread that runs inside the driver, or inside NCCL, at one moment.
struct GpuWait {
  pid_t tid = 0;
  bool in_nccl = false;      ///< one of NCCL's own, which moves data between hosts
  double cpu_seconds = 0;    ///< so far
  std::uint64_t before = 0;  ///< times that it had slept before this look, which makes it sleep
  std::uint64_t after = 0;   ///< and after it
  std::uint64_t top = 0;     ///< its stack pointer
  std::uint64_t begin = 0;   ///< the address of the first of `blocks`
  std::string blocks;        ///< a hash of each block of its stack, 8 characters each
};

/// Bytes of a block.
inline constexpr std::uint64_t kStackBlock = 512;

/// Whether the thread has been in one and the same call of the driver from one look to another. One
/// that has returned from it has slept for something else, or has called other functions, whose
/// traces are in its stack: only the few calls of the polling itself leave theirs near its top.
/// Pure.
bool is_same_wait(const GpuWait& before, const GpuWait& now);

/// The CPU time for which threads waited between two looks. Pure.
double seconds_waited(const std::vector<GpuWait>& before, const std::vector<GpuWait>& now);

/// Whether the process has loaded the driver. For any thread.
bool uses_gpu(pid_t pid);

/// The threads of `pid` that run inside the driver or NCCL. Each that runs is stopped for some 50
/// µs, in the way of StoppedThread, with its demands on the caller. Empty also if this process may
/// not.
std::vector<GpuWait> gpu_waits(pid_t pid);

}  // namespace ddprun::launcher
