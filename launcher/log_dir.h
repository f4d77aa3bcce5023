// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::launcher {

/// Where one node's log files and error files are, as torchrun has them:
///
///   ROOT/<run_id>_<random>/attempt_N/<local_rank>/error.json
///
/// N is the number of the round, so without nodes that come and go it is the restart count. An
/// attempt's files are never used again nor removed. Directories are their owner's alone (0700).
///
/// Without a root all there is are error files in a temporary directory ($TMPDIR, or /tmp), which
/// goes with this object; should the process die before, the guardian removes it.
/// Thread: any one.
class LogDir {
 public:
  /// The root that means: no files at all.
  static constexpr std::string_view kNone = "/dev/null";

  LogDir() = default;
  LogDir(const LogDir&) = delete;
  ~LogDir();

  /// Makes the directory of this run, with its parents; once. `root` is the user's, may be
  /// relative, or kNone, or empty: a temporary directory. Errors: usage (root is a file or cannot
  /// be made), system (there can be no temporary one); there are no files then.
  Result<> open(const std::string& root, const std::string& run_id);

  /// Makes the directories of the next attempt, number `round` or, were that taken, the next one.
  /// Errors: system; this attempt has no files then.
  Result<> begin_attempt(int round, int local_size);

  /// TORCHELASTIC_ERROR_FILE of the worker with this local rank in the attempt that was begun last:
  /// an absolute path in a directory that is there; nobody but the worker makes the file. Empty:
  /// none.
  std::string error_file(int local_rank) const;

 private:
  Result<> open_temporary();

  std::string run_;            // empty: no files
  bool is_temporary_ = false;  // and flat
  int attempt_ = -1;
  std::string attempt_dir_;  // of the tree; empty: none
};

}  // namespace ddprun::launcher
