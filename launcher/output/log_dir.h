// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace ddprun::launcher {

/// Where one node's log files and error files are, as torchrun has them:
///
///   ROOT/<run_id>_<random>/attempt_N/<local_rank>/{stdout.log,stderr.log,error.json}
///   ROOT/<run_id>_<random>/attempt_N/{filtered_stdout.log,filtered_stderr.log}
///
/// N is the number of the round, so without nodes that come and go it is the restart count. An
/// attempt's files are never used again nor removed. Directories are their owner's alone (0700).
///
/// Without a root a temporary directory ($TMPDIR, or /tmp) takes its place. It stays when there are
/// log files in it. When there are only error files it is in $TMPDIR, /dev/shm or /tmp, and goes
/// with this object; should the process die before, the guardian removes it. Thread: any one.
class LogDir {
 public:
  /// The root that means: no files at all.
  static constexpr std::string_view kNone = "/dev/null";

  enum class Stream { out, err };

  LogDir() = default;
  LogDir(const LogDir&) = delete;
  ~LogDir();

  /// Makes the directory of this run, with its parents; once. `root` is the user's, may be
  /// relative, or kNone, or empty: a temporary directory. `logs`: there will be log files. Errors:
  /// usage (root is a file or cannot be made), system (there can be no temporary one); there are no
  /// files then.
  Result<> open(const std::string& root, const std::string& run_id, bool logs);

  /// Where the attempts are, absolute; empty: nowhere.
  const std::string& path() const { return run_; }

  /// Makes the directories of the next attempt, number `round` or, were that taken, the next one.
  /// Errors: system; this attempt has no files then.
  Result<> begin_attempt(int round, int local_size);

  /// TORCHELASTIC_ERROR_FILE of the worker with this local rank in the attempt that was begun last:
  /// an absolute path in a directory that is there; nobody but the worker makes the file. Empty:
  /// none.
  std::string error_file(int local_rank) const;

  /// Whether the attempt that was begun last has a place for log files.
  bool has_logs() const { return discards_ || !attempt_dir_.empty(); }

  /// Paths of its log files, /dev/null with kNone. Only when there is a place for them.
  std::string log_file(int local_rank, Stream stream) const;
  std::string filtered_file(Stream stream) const;

 private:
  Result<> open_temporary(const std::string& name);

  std::string run_;            // empty: no files
  bool discards_ = false;      // kNone
  bool is_temporary_ = false;  // and flat
  int attempt_ = -1;
  std::string attempt_dir_;  // of the tree; empty: none
};

}  // namespace ddprun::launcher
