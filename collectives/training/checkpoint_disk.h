// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "collectives/training/checkpoint_header.h"
#include "ddp/types.h"

namespace ddp::internal {

class CheckpointSum;

/// A checkpoint on the disk, opened for reading. Stays readable when the file is replaced.
class CheckpointReader {
 public:
  /// Opens the file; returns nothing if there is none. Reads only the header, and checks it and the
  /// length of the file. Errors begin with the path; kind protocol: the file is damaged.
  static ddprun::Result<std::optional<CheckpointReader>> open(const std::string& path);

  const CheckpointHeader& header() const { return header_; }

  /// Reads the whole file and checks its checksum. Errors: as above.
  ddprun::Result<> check() const;

  /// Reads the elements into buffers with the types and counts of the header, and checks the
  /// checksum. Errors: as above; the elements are unspecified then.
  ddprun::Result<> read(const std::vector<Buffer>& parts) const;

 private:
  CheckpointReader(std::string path, ddprun::Fd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  ddprun::Result<> read_at(std::uint64_t offset, void* data, std::size_t size) const;
  ddprun::Result<> compare(const CheckpointSum& sum) const;

  std::string path_;
  ddprun::Fd file_;
  CheckpointHeader header_;
};

/// The path of the previous checkpoint, beside the one at `path`.
std::string previous_checkpoint(const std::string& path);

/// The file that a symbolic link points to, whether it exists or not; else `path`.
std::string target_of(std::string path);

/// Replaces the file, or the one that a symbolic link of that name points to, atomically, and
/// returns when it is on the disk. `header` has version and generation. `keep_previous`: keeps the
/// old one as previous_checkpoint(path).
///
/// A writer of an older generation neither replaces nor changes the file of a newer one. Each
/// writer writes to its own new file, whose name has its generation, and checks the generation of
/// the file before it replaces it. Just before that, a newer writer removes the files of older
/// ones, so that they cannot take the file's place afterwards. Errors: system; closed (there is a
/// file of a newer generation).
ddprun::Result<> write_checkpoint(const std::string& name, CheckpointHeader header,
                                  const std::vector<Buffer>& parts, bool keep_previous);

}  // namespace ddp::internal
