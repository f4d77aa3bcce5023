// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "launcher/kernel/kernel_log.h"

namespace ddprun::launcher {

/// An error that NVIDIA's driver wrote into the kernel's log. NVIDIA calls its number Xid.
struct GpuError {
  std::string gpu;  ///< address on the PCI bus: "0000:3b:00"
  int xid = 0;
  pid_t pid = 0;        ///< of the process with the error, in the initial pid namespace; 0: unknown
  std::string text;     ///< "Xid 79 (the GPU fell off the bus)"
  bool of_gpu = false;  ///< a fault of the GPU or its links; hits any process
};

/// Finds out from the kernel's log whether a GPU failed under a worker; finds nothing if the log
/// cannot be read. For any thread, one at a time.
class GpuErrorWatch {
 public:
  /// Only later errors count. Other paths are for tests.
  explicit GpuErrorWatch(const std::string& kmsg = "/dev/kmsg",
                         const std::string& proc_self = "/proc/self")
      : log_(KernelLog::From::now, kmsg), pids_are_ours_(in_initial_pid_namespace(proc_self)) {}

  /// The cause of the end of process `pid`: "GPU 0000:3b:00: Xid 31 (an invalid address in GPU
  /// memory), as this host's kernel says". This is the first error among its own and the faults of
  /// their GPU; if it has none of its own, the first fault of any GPU. Empty: no error.
  std::string cause(pid_t pid);

 private:
  KernelLog log_;
  bool pids_are_ours_;
  std::vector<GpuError> errors_;
};

/// Parses a record of the kernel's log; nullopt: another message, or an error that only follows
/// from the end of a process.
std::optional<GpuError> parse_gpu_error(std::string_view record);

}  // namespace ddprun::launcher
