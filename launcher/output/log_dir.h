// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

/// The directory of one node's log and error files, with torchrun's layout:
///
///   ROOT/<run_id>_<random>/attempt_N/<local_rank>/{stdout.log,stderr.log,error.json}
///   ROOT/<run_id>_<random>/attempt_N/{filtered_stdout.log,filtered_stderr.log}
///
/// N is the number of the round; if no nodes join or leave, that is the restart count. Files of an
/// attempt are never reused or removed. Only their owner may access the directories (0700).
///
/// Without a root, a temporary directory is used. With log files it is in $TMPDIR or /tmp, and is
/// kept. With error files only it is in $TMPDIR, /dev/shm or /tmp, and is removed by the
/// destructor, or by the guardian if the process dies, or if both do, when it is in /dev/shm, by
/// the next process that opens one there. Thread: any.
class LogDir {
 public:
  /// The root that means no files.
  static constexpr std::string_view kNone = "/dev/null";

  enum class Stream { out, err };

  LogDir() = default;
  LogDir(const LogDir&) = delete;
  ~LogDir();

  /// Creates the directory of this run, with its parents; call it once. `root` is absolute or
  /// relative, kNone, or empty for a temporary directory. `logs`: there will be log files. Errors:
  /// usage (root is a file or cannot be created), system (no temporary directory); then there are
  /// no files.
  Result<> open(const std::string& root, const std::string& run_id, bool logs);

  /// The directory of this run, absolute; empty: none.
  const std::string& path() const { return run_; }

  /// Creates the directories of the next attempt; its number is `round`, or the next one if that is
  /// taken. Errors: system; then this attempt has no files.
  Result<> begin_attempt(int round, int local_size);

  /// TORCHELASTIC_ERROR_FILE of this worker in the current attempt: an absolute path in an existing
  /// directory; only the worker creates the file. Empty: none.
  std::string error_file(int local_rank) const;

  /// Whether the current attempt can have log files.
  bool has_logs() const { return discards_ || !attempt_dir_.empty(); }

  /// Paths of its log files; /dev/null with kNone. Requires has_logs().
  std::string log_file(int local_rank, Stream stream) const;
  std::string filtered_file(Stream stream) const;

 private:
  Result<> open_temporary(const std::string& name);

  std::string run_;            // empty: no files
  bool discards_ = false;      // the root is kNone
  bool is_temporary_ = false;  // error files only, without subdirectories
  Fd lock_;                    // of a temporary one
  int attempt_ = -1;
  std::string attempt_dir_;  // empty: none
};

}  // namespace ddprun::launcher
