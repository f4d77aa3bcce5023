// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace ddp::internal {

/// Host memory that the current GPU copies from and to without the CPU. Throws ddp::Error.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes);
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  std::size_t size() const { return bytes_; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// Keeps pinned memory for the next user, up to a limit: allocating it takes longer than most
/// copies. All of it belongs to one GPU, which has to be current. Thread: any.
class PinnedPool {
 public:
  /// Returns memory of at least `bytes`.
  std::unique_ptr<PinnedMemory> take(std::size_t bytes);

  /// Keeps the memory for take(), or frees it.
  void give(std::unique_ptr<PinnedMemory> memory);

 private:
  std::mutex mutex_;                                                // protects what follows
  std::multimap<std::size_t, std::unique_ptr<PinnedMemory>> kept_;  // by size
  std::size_t kept_bytes_ = 0;
};

}  // namespace ddp::internal
