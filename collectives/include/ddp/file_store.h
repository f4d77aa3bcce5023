// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "ddp/store.h"

namespace ddp {

/// How a FileStore begins.
struct FileStoreOptions {
  /// How many processes will open the file, each once. Who leaves last of so many removes it. None:
  /// nobody does, and any number may come.
  std::optional<int> world_size = {};
  /// The store's timeout(). At least 0.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// A store in a file that all processes can open: on one host, or on a file system they share. Like
/// PyTorch's FileStore it is a log to which every change is appended; the format is our own.
///
/// Locks are the kernel's, on ranges of the open file (fcntl(2), F_OFD_SETLK): a process that dies,
/// in whatever way, holds up nobody, and what it had half written is cut off. On a network file
/// system they have to work between hosts: NFS 4 has them, Lustre needs the mount option flock.
///
/// A file that an earlier run left is told, not used: one that was opened before, and that no
/// process has open now, unless all who left it closed it in order before world_size had come; and
/// one that world_size processes have opened already. Remove it, or take another name.
///
/// Who waits looks again every few milliseconds: no kernel tells what other hosts write.
class DDP_EXPORT FileStore final : public Store {
 public:
  /// Creates the file, for its owner alone to read and write, or opens it.
  /// Errors: usage (left by an earlier run, or not a store), system (it cannot be opened, locked,
  /// read or written).
  explicit FileStore(const std::string& path, const FileStoreOptions& options = {});

  /// Leaves; the last of world_size removes the file.
  ~FileStore() override;

  std::string name() const override;

 private:
  void do_set(std::string_view key, std::string_view value) override;
  std::int64_t do_add(std::string_view key, std::int64_t amount) override;
  bool do_check(const std::vector<std::string>& keys) override;
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired) override;
  bool do_delete_key(std::string_view key) override;
  std::int64_t do_num_keys() override;
  void do_append(std::string_view key, std::string_view suffix) override;
  void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) override;
  bool do_wait(const std::vector<std::string>& keys, Deadline deadline) override;
  std::vector<std::string> do_multi_get(const std::vector<std::string>& keys) override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
