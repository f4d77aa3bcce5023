// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "launcher/kernel/kernel_log.h"

namespace ddprun::launcher {

/// An error that NVIDIA's driver wrote into the kernel's log, with the number that it calls Xid.
struct GpuError {
  std::string gpu;  ///< on the PCI bus: "0000:3b:00"
  int xid = 0;
  pid_t pid = 0;        ///< of the process that had it, in the initial pid namespace; 0: unknown
  std::string text;     ///< "Xid 79 (the GPU fell off the bus)"
  bool of_gpu = false;  ///< a fault of the GPU or its links, for whichever process
};

/// Finds out whether a GPU failed under a worker, from the kernel's log, if that can be read.
/// For any thread, one at a time.
class GpuErrorWatch {
 public:
  /// Only later errors count. Other paths are for tests.
  explicit GpuErrorWatch(const std::string& kmsg = "/dev/kmsg",
                         const std::string& proc_self = "/proc/self")
      : log_(KernelLog::From::now, kmsg), pids_are_ours_(in_initial_pid_namespace(proc_self)) {}

  /// The cause of the end of process `pid`: "GPU 0000:3b:00: Xid 31 (an invalid address in GPU
  /// memory), as this host's kernel says"; the first of its own errors, or that of their GPU which
  /// came before it; or else one of any GPU. Empty: none.
  std::string cause(pid_t pid);

 private:
  KernelLog log_;
  bool pids_are_ours_;
  std::vector<GpuError> errors_;
};

/// The error in a record of the kernel's log; nullopt: another message, or one that only follows
/// from a process's end.
std::optional<GpuError> parse_gpu_error(std::string_view record);

}  // namespace ddprun::launcher
