// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddp/process_group.h"
#include "ddp/work.h"

namespace ddp::internal {

class GroupCalls;

/// The writing side of a Checkpoint. Thread: one at a time, and that of a write_later().
class CheckpointWriter : public std::enable_shared_from_this<CheckpointWriter> {
 public:
  explicit CheckpointWriter(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }

  /// Waits for the last write_later(), with or without success.
  void settle();

  /// A file that was read is undamaged; or it is of this generation.
  void found_whole() { is_whole_ = true; }
  void found_generation(std::uint64_t generation);

  /// See Checkpoint::save() and isave(), with parts that the file can have. Call settle() first.
  void write(ProcessGroup& group, std::uint64_t version, const std::vector<Buffer>& parts);
  Work write_later(ProcessGroup& group, std::uint64_t version, const std::vector<Buffer>& parts);

 private:
  std::string write_file(const std::string& here, std::uint64_t version,
                         const std::vector<Buffer>& parts);
  ProcessGroup& own_group(ProcessGroup& of);

  const std::string path_;
  bool is_whole_ = false;            // this rank has written or checked the file
  std::uint64_t generation_ = 0;     // the next file's: above that of the loaded file
  std::optional<ProcessGroup> own_;  // has the same ranks as the group with these calls
  std::weak_ptr<GroupCalls> own_of_;
  std::optional<Work> last_;
};

}  // namespace ddp::internal
