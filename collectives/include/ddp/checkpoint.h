// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ddp/export.h"
#include "ddp/process_group.h"
#include "ddp/work.h"

namespace ddp {

namespace internal {
class CheckpointWriter;
}  // namespace internal

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
/// checkpoint, the old one or the new one. The previous checkpoint, unless it is damaged, is kept
/// as PATH.previous if the file system has hard links. A crash may leave PATH.new-..., which the
/// next save() removes. If PATH is a symbolic link, all of these files are beside its target.
///
/// The state is a list of at most 65536 parts, each a buffer in host memory, with the same types
/// and counts on every rank, when saved and when loaded. The file is a safetensors file, which
/// Python reads: safetensors.torch.load_file("digits.ckpt")["part_0"]. Part i is the tensor part_i,
/// of one dimension; complex numbers are stored as pairs of real ones, structs as bytes. The
/// metadata has ddp.version, and ddp.checksum, which detects accidental damage: XXH3 (64 bits) of
/// the file with zeros for the 16 digits of the checksum. A file of another program with such
/// tensors, of any shape, is loaded as version 0. Files of ddp 0.1.0 are loaded, too.
///
/// Two writers. After a network partition, the rank 0 that was cut off may still run while the job
/// continues elsewhere with another one. Each save() has the time at which its group was formed or,
/// if load() found a later one, the next above that; ddp.generation in the metadata is this time.
/// - Writers never write to the same file, and a file that has become PATH is never written again.
/// - save() fails if the file at PATH is of a later time. So once a group has saved, an older one
///   does not replace its file.
/// - "Older" is right if the later group has loaded a file of the older one, or the clocks of their
///   hosts differ by less than the time between the two.
/// - The limit: file systems cannot compare and replace in one step. Suppose the older writer has
///   looked at PATH and is stopped just before it renames its own file. If the newer one does both
///   its last steps in between (remove the files of older writers, rename its own), the older one
///   fails. Only if both are stopped, each between two certain system calls, the older file may
///   win; it is then a complete checkpoint. On a network file system this needs directories that
///   all hosts see alike.
///
/// save(), isave() and load() are collective calls: every rank of the group makes them, in the same
/// order among the group's other calls. A failure on one rank, such as a full disk, is thrown on
/// all of them with the same text; the group stays usable unless it was the group that failed.
///
/// Thread: one at a time. Copies refer to the same checkpoint.
class DDP_EXPORT Checkpoint {
 public:
  /// The file need not exist, and is not opened here.
  explicit Checkpoint(std::string path);

  /// Rank 0 writes its `state` with a number of the caller's choice (epochs or steps done); the
  /// contents of the other ranks are ignored. Returns on every rank when file and folder are
  /// flushed to the disk. Needs disk space for three checkpoints. Errors: usage (a part is in
  /// device memory; too many parts), system (the file cannot be written, or is of a group that was
  /// formed later; the old one is unchanged).
  void save(ProcessGroup& group, std::uint64_t version, const std::vector<Buffer>& state);

  /// save() while the training continues: rank 0 copies its `state` in memory, and returns; then a
  /// thread writes the copy. The Work ends on every rank when save() would have returned, with the
  /// error that it would have thrown. The next save(), isave() or load() of this object waits for
  /// that first, and the process does not exit before. The first isave() in a group makes a group
  /// of the group's ranks, as split() does; after an error of that group, the next isave() makes a
  /// new one. Errors: usage (as of save()), those of split().
  [[nodiscard]] Work isave(ProcessGroup& group, std::uint64_t version,
                           const std::vector<Buffer>& state);

  /// Fills `state` on every rank with the same checkpoint, and returns its version; nothing if no
  /// rank finds the file. If ranks find different files, the one of the highest version is taken;
  /// only the lowest rank that has it reads it. Errors: usage (a part is in device memory; the file
  /// has other parts), mismatch (the ranks' parts differ), system (a rank's file is damaged or
  /// cannot be read). `state` is unchanged after these errors and if there is no file, except that
  /// a damaged file leaves it unspecified on the rank that reads it.
  std::optional<std::uint64_t> load(ProcessGroup& group, const std::vector<Buffer>& state);

 private:
  std::shared_ptr<internal::CheckpointWriter> writer_;
};

}  // namespace ddp
