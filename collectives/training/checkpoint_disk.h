// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "collectives/training/checkpoint_file.h"
#include "ddp/types.h"

namespace ddp::internal {

/// A checkpoint on the disk, open to be read. What replaces the file later does not change it.
class CheckpointReader {
 public:
  /// Nothing: there is no such file. Reads the header alone; errors say what is wrong with it, or
  /// with the length of the file. They begin with the path, and are of kind protocol
  /// where the file itself is wrong.
  static ddprun::Result<std::optional<CheckpointReader>> open(const std::string& path);

  const CheckpointHeader& header() const { return header_; }

  /// Reads the whole file. Errors: as above; the checksum is wrong.
  ddprun::Result<> check() const;

  /// Reads the elements into buffers of the types and counts the header has.
  ddprun::Result<> read(const std::vector<Buffer>& parts) const;

 private:
  CheckpointReader(std::string path, ddprun::Fd file)
      : path_(std::move(path)), file_(std::move(file)) {}

  ddprun::Result<> read_at(std::uint64_t offset, void* data, std::size_t size) const;

  std::string path_;
  ddprun::Fd file_;
  CheckpointHeader header_;
};

/// Where the checkpoint that was before is kept.
std::string previous_checkpoint(const std::string& path);

/// Replaces the file in one step, and returns when it is on the disk. `keep_previous`: the one that
/// is there is kept beside it.
ddprun::Result<> write_checkpoint(const std::string& path, std::uint64_t version,
                                  const std::vector<Buffer>& parts, bool keep_previous);

}  // namespace ddp::internal
