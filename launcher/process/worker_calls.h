// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace ddprun::launcher {

/// A worker's place in the order of a group's collective calls, as `ddp` or PyTorch counts them.
struct WorkerCall {
  std::uint64_t group = 0;  ///< the same on all ranks of the group
  std::uint64_t begun = 0;  ///< number of its last call that has begun; 0: none has
  std::uint64_t open = 0;   ///< number of its oldest call that has not ended; 0: it is in none
  std::string shown;        ///< that call, or else the last that has ended: "#121 all_reduce[8]";
                            ///< empty: there was no call
  std::vector<std::string> recent{};  ///< the last that it has begun, as `shown`; may be unknown
  bool failed = false;                ///< it has ended by a failure: `open` is a guess
  std::string release{};              ///< of its library, "PyTorch 2.15.0"; empty: unknown
  int members = 0;                    ///< ranks of the group; 0: unknown
  /// When it began its last calls, up to `begun`: microseconds by the host's clock. May be unknown.
  std::vector<std::int64_t> times{};

  bool operator==(const WorkerCall&) const = default;
};

/// The calls of each group of process `pid`, the worker with this global rank. None if it
/// does not use `ddp`, or may not be read, or has other ranks. Does not disturb it. Takes some
/// microseconds for each of its open files. For any thread.
std::vector<WorkerCall> calls_of(pid_t pid, int rank, const std::string& proc = "/proc");

/// "in #121 all_reduce[8]" for a group in whose call it is; "after #120 barrier" for the only group
/// with calls if it is in no call; empty: unknown.
std::string call_text(const std::vector<WorkerCall>& calls);

}  // namespace ddprun::launcher
