// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/fd.h"

// Directories whose owner could not remove them, because it was killed together with its guardian.
// An owner locks its directory, and the kernel releases the lock when the owner ends.

namespace ddprun::launcher {

/// The prefix of directories that are made in /dev/shm for ranks of MPI.
inline constexpr const char* kMpiFolder = "ddprun_mpi-";

/// Locks a directory that was just created, until the descriptor is closed. Empty: it cannot be
/// locked, or another ddprun removed it as abandoned.
Fd lock_directory(const std::string& path);

/// Removes this user's unlocked directories in `folder` whose name is `prefix` and six characters.
/// Ignores errors.
void remove_abandoned_dirs(const std::string& folder, const std::string& prefix);

/// The names of the files of one attempt. Default constructed: there are no files.
class AttemptFiles {
 public:
  enum class Stream { out, err };

  /// This worker's TORCHELASTIC_ERROR_FILE: an absolute path; only the worker creates the file.
  /// Empty: no file.
  std::string error_file(int local_rank) const;

  /// Whether there can be log files.
  bool has_logs() const { return discards_ || has_directories(); }

  /// The folder of this worker's files; empty: there are no directories.
  std::string folder(int local_rank) const;

  /// Paths of the log files; /dev/null with kNone. Requires has_logs().
  std::string log_file(int local_rank, Stream stream) const;
  std::string filtered_file(Stream stream) const;

  /// Whether the attempt has directories for its files, which make_directories() creates.
  bool has_directories() const { return !dir_.empty(); }

  /// May block. Errors: system.
  Result<> make_directories(int local_size) const;

 private:
  friend class LogDir;

  bool discards_ = false;     // the root is kNone
  std::string dir_;           // contains a directory for each worker; empty: no directories
  std::string error_prefix_;  // of error files without directories; empty: no such files
};

/// The directory of one node's log and error files, with torchrun's layout:
///
///   ROOT/<run_id>_<random>/attempt_N/<local_rank>/{stdout.log,stderr.log,error.json}
///   ROOT/<run_id>_<random>/attempt_N/{filtered_stdout.log,filtered_stderr.log}
///
/// N is the number of the round; if no nodes join or leave, that is the restart count. Files of an
/// attempt are never reused or removed. Only their owner may access the directories (0700).
///
/// Without a root, a temporary directory is used. With log files it is in $TMPDIR or /tmp, and is
/// kept. With error files only it is in $TMPDIR, /dev/shm or /tmp, and the destructor removes it.
/// If the process dies, the guardian removes it. If both die, and it is in /dev/shm, the next call
/// of remove_abandoned does. Thread: any.
class LogDir {
 public:
  /// The root that means: no files.
  static constexpr std::string_view kNone = "/dev/null";

  LogDir() = default;
  LogDir(const LogDir&) = delete;
  ~LogDir();

  /// Creates the directory of this run, with its parents. Call it once. `root` is absolute or
  /// relative, kNone, or empty for a temporary directory. `logs`: there will be log files. Errors,
  /// after which there are no files: usage (root is a file or cannot be created), system (no
  /// temporary directory).
  Result<> open(const std::string& root, const std::string& run_id, bool logs);

  /// Removes the temporary directories in /dev/shm of this user's processes that died together with
  /// their guardian: nobody else frees that memory.
  static void remove_abandoned();

  /// The directory of this run, absolute; empty: no directory.
  const std::string& path() const { return run_; }

  /// The files of the next attempt. Its number is `round`, or the next one if that is taken.
  AttemptFiles begin_attempt(int round);

 private:
  Result<> open_temporary(const std::string& name);

  std::string run_;            // empty: no files
  bool discards_ = false;      // the root is kNone
  bool is_temporary_ = false;  // error files only, without subdirectories
  Fd lock_;                    // of a temporary directory
  int attempt_ = -1;
};

}  // namespace ddprun::launcher
