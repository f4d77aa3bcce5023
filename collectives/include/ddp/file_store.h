// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "ddp/store.h"

namespace ddp {

/// How a FileStore is opened.
struct FileStoreOptions {
  /// How many processes open the file, each once; the last of them to close it removes it. Default:
  /// any number, and the file stays.
  std::optional<int> world_size = {};
  /// The store's timeout(). At least 0.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// A store in a file that all processes can open: on one host, or on a shared file system. Like
/// PyTorch's FileStore it is a log to which every change is appended; the format is different.
///
/// Locks are those of the kernel, on ranges of the open file (fcntl(2), F_OFD_SETLK). A process
/// that dies releases them, and a half-written entry is cut off. On a network file system locks
/// must work between hosts: NFS 4 has them, Lustre needs the mount option flock.
///
/// A file of an earlier run is refused: one that world_size processes have opened already, or that
/// was opened before and is open in no process now, unless all of them closed it in order before
/// world_size was reached. Remove it, or use another name.
///
/// Calls that wait read the file again every few milliseconds: a kernel does not report the writes
/// of other hosts.
class DDP_EXPORT FileStore final : public Store {
 public:
  /// Creates the file, for its owner alone to read and write, or opens it.
  /// Errors: usage (left by an earlier run, or not a store), system (it cannot be opened, locked,
  /// read or written).
  explicit FileStore(const std::string& path, const FileStoreOptions& options = {});

  /// Closes the file; the last of world_size processes removes it.
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
