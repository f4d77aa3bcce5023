// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/fd.h"

namespace ddp::internal {

/// The place of a process's data that another process of the host may read.
struct MemoryPlace {
  std::uint64_t data = 0;     ///< its address
  std::uint64_t shared = 0;   ///< ShmHeap::position_of(); 0: only that process maps it
  std::uint64_t mark = 0;     ///< the address of the process's MemoryMark
  std::int64_t process = -1;  ///< its number in its own PID namespace
};

/// A number in this process's memory that others read together with its data. While they find it,
/// the data is valid, and the process's number still means this process. (After its end, or in
/// another PID namespace, the number may mean another one.)
///
/// Thread: any.
class MemoryMark {
 public:
  /// Processes that know `token` may read.
  explicit MemoryMark(std::uint64_t token);
  MemoryMark(const MemoryMark&) = delete;
  MemoryMark& operator=(const MemoryMark&) = delete;
  ~MemoryMark();

  /// False if there was no memory for it.
  explicit operator bool() const { return mark_ != nullptr; }

  MemoryPlace place_of(const void* data) const;

  /// Whether the page with this byte is huge, or was when the kernel was last asked, a few calls
  /// ago; nullopt if the kernel does not say, as before Linux 6.7. Thread: one at a time.
  std::optional<bool> is_in_huge_page(const void* byte) const;

  /// From now on nobody takes data that is read here for valid: it may be changed.
  void remove() noexcept;

 private:
  /// Whether a page is huge. Kept for some calls, as asking the kernel takes 1 us.
  struct Answer {
    std::uint64_t page = 0;
    int calls = 0;  ///< how many it is still kept for
    std::optional<bool> is_huge = {};
  };

  std::optional<bool> ask_kernel(std::uint64_t address) const;

  std::atomic<std::uint64_t>* mark_ = nullptr;  // its page becomes zero in a forked child
  mutable std::optional<ddprun::Fd> page_map_;  // opened when first needed
  mutable std::array<Answer, 16> answers_;      // by the page's number
};

/// Whether this process may read there and finds `token` as the mark.
bool is_marked(const MemoryPlace& place, std::uint64_t token);

/// Copies the data that begins `at` bytes after the place. Returns false if this process may not
/// read all of it, or the mark is gone; then the content of `to` is unspecified.
bool read_memory(const MemoryPlace& place, std::uint64_t token, std::size_t at, std::span<char> to);

}  // namespace ddp::internal
