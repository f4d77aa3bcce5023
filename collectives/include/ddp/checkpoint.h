// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"

namespace ddp {

/// The state of a training in a file, from which the training continues after a restart, with the
/// same or another number of ranks. Rank 0 writes the file. After the restart at least one rank
/// must find it: it belongs on a file system that all nodes share, or on the only node.
///
///     ddp::Checkpoint checkpoint("digits.ckpt");
///     std::uint64_t done = checkpoint.load(group, {parameters, momentum}).value_or(0);
///     while (done < epochs) {
///       ...
///       checkpoint.save(group, ++done, {parameters, momentum});
///     }
///
/// At every moment, and after any crash including a power failure, the file is a complete
/// checkpoint, the old one or the new one. The previous checkpoint is kept as PATH.previous if the
/// file system has hard links; a damaged file is never kept as that.
///
/// The state is a list of at most 65536 parts, each a buffer in host memory, with the same types
/// and counts on every rank, when saved and when loaded. The file has their elements as in memory
/// (little-endian), and a checksum that detects accidental damage.
///
/// save() and load() are collective calls: every rank of the group makes them, in the same order
/// among the group's other calls. A failure on one rank, such as a full disk, is thrown on all of
/// them with the same text; the group stays usable unless it was the group that failed.
///
/// Thread: one at a time.
class DDP_EXPORT Checkpoint {
 public:
  /// The file need not exist, and is not opened here.
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}

  /// Rank 0 writes its `parts` with a number of the caller's choice (epochs or steps done); the
  /// contents of the other ranks are ignored. Returns on every rank when file and folder are
  /// flushed to the disk. Needs disk space for three checkpoints. Errors: usage (a part is in
  /// device memory; too many parts), system (the file cannot be written; the old one is unchanged).
  void save(ProcessGroup& group, std::uint64_t version, const std::vector<Buffer>& parts);

  /// Fills `parts` on every rank with the same checkpoint, and returns its version; nothing if no
  /// rank finds the file. If ranks find different files, takes the one of the highest version, from
  /// the lowest rank that has it, which alone reads it. Errors: usage (a part is in device memory;
  /// the file has other parts), mismatch (the ranks' parts differ), system (a rank's file is
  /// damaged or cannot be read). `parts` are unchanged after these errors and if there is no file.
  std::optional<std::uint64_t> load(ProcessGroup& group, const std::vector<Buffer>& parts);

 private:
  std::string path_;
  bool whole_ = false;  // the file is known to be undamaged: this rank has written or checked it
};

}  // namespace ddp
