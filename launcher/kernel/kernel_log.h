// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace ddprun::launcher {

/// The kernel's log; no records if this process may not read it. Holds one open file. For any
/// thread, one at a time.
class KernelLog {
 public:
  enum class From {
    boot,  ///< all records that the kernel has kept
    now,   ///< only what is written after construction
  };
  explicit KernelLog(From from, const std::string& path = "/dev/kmsg");

  bool is_readable() const { return static_cast<bool>(log_); }

  /// Calls `handle` with the first line of each new record: "6,1234,5140900,-;text".
  void read(const std::function<void(std::string_view)>& handle) const;

 private:
  Fd log_;
};

/// Whether pids in the kernel's log mean the same here: the log has pids of the initial namespace.
bool in_initial_pid_namespace(const std::string& proc_self = "/proc/self");

/// The text of a record that the kernel itself wrote; empty: a program wrote it.
std::string_view kernel_message(std::string_view record);

}  // namespace ddprun::launcher
