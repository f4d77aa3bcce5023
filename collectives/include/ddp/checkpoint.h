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

/// The state of a training in a file: what it goes on from after its workers were lost, be they as
/// many as before or not. Rank 0 writes the file; it lies where the rank 0 of a later start finds
/// it, or any other rank: on a file system that all nodes share, or on the only node.
///
///     ddp::Checkpoint checkpoint("digits.ckpt");
///     std::uint64_t done = checkpoint.load(group, {parameters, momentum}).value_or(0);
///     while (done < epochs) {
///       ...
///       checkpoint.save(group, ++done, {parameters, momentum});
///     }
///
/// Whoever reads the file, at any moment and after any crash, power cuts included, finds a whole
/// checkpoint, the old one or the new one. The one before it is kept beside it, as PATH.previous,
/// where the file system has hard links; a broken file never takes its place.
///
/// The state is a list of parts, each a buffer in host memory; the same list of types and counts on
/// every rank, when it is saved and when it is loaded. At most 65536 of them. The file has their
/// elements as they lie in memory (little-endian), and a checksum against accidents.
///
/// Every rank of the group makes the same calls, among the group's own; they are collective calls
/// themselves. What fails on one rank, a full disk, say, is thrown on all of them with the same
/// words, and the group stays usable, if it was not the group that failed.
///
/// Thread: one at a time.
class DDP_EXPORT Checkpoint {
 public:
  /// No file has to be there. Does not look.
  explicit Checkpoint(std::string path) : path_(std::move(path)) {}

  /// Rank 0 writes what it has in `parts`, with a number of the caller's choice (epochs or steps
  /// done); the other ranks' contents are not looked at. Returns on every rank when file and folder
  /// are on the disk. For a moment the disk holds three checkpoints.
  /// Errors: usage (a part is in device memory; too many parts), system (the disk refused: what was
  /// there before is there still).
  void save(ProcessGroup& group, std::uint64_t version, const std::vector<Buffer>& parts);

  /// Fills `parts` on every rank with one and the same checkpoint, and returns its version;
  /// nothing, and `parts` are as before, if no rank finds the file. Where ranks find different ones
  /// it is the one of the highest version, from the lowest rank that has it: only that rank reads
  /// it. Errors: usage (a part is in device memory; the file has other parts), mismatch (the ranks'
  /// parts differ), system (a rank's file is damaged, or cannot be read). In all of these `parts`
  /// are as before.
  std::optional<std::uint64_t> load(ProcessGroup& group, const std::vector<Buffer>& parts);

 private:
  std::string path_;
  bool whole_ = false;  // what the path has, by this rank's own doing or check
};

}  // namespace ddp
