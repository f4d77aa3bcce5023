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

/// Where a process has data that another one of the host may read.
struct MemoryPlace {
  std::uint64_t data = 0;     ///< its address
  std::uint64_t shared = 0;   ///< ShmHeap::position_of(); 0: only that process maps it
  std::uint64_t mark = 0;     ///< that of the process's MemoryMark
  std::int64_t process = -1;  ///< as its own PID namespace counts
};

/// A number in this process's memory that others read together with its data: as long as they find
/// it, the number of the process has not come to mean another one, as after its end or in another
/// PID namespace, and the data is what it says.
///
/// Thread: any.
class MemoryMark {
 public:
  /// `token` is known to those who may read.
  explicit MemoryMark(std::uint64_t token);
  MemoryMark(const MemoryMark&) = delete;
  MemoryMark& operator=(const MemoryMark&) = delete;
  ~MemoryMark();

  /// False if there is no memory for it.
  explicit operator bool() const { return mark_ != nullptr; }

  MemoryPlace place_of(const void* data) const;

  /// Whether the page with this byte is a huge one, or was when it was last asked for, a few calls
  /// ago; nullopt: the kernel does not tell, as before Linux 6.7. Thread: one at a time.
  std::optional<bool> is_in_huge_page(const void* byte) const;

  /// From now on nobody takes what is read for valid: the data may be changed.
  void remove() noexcept;

 private:
  /// Of a huge page's memory. Kept for some calls, as the kernel takes 1 us for it.
  struct Answer {
    std::uint64_t page = 0;
    int calls = 0;  ///< that it is still kept for
    std::optional<bool> is_huge = {};
  };

  std::optional<bool> ask_kernel(std::uint64_t address) const;

  std::atomic<std::uint64_t>* mark_ = nullptr;  // in a page that is zero in a forked child
  mutable std::optional<ddprun::Fd> page_map_;  // opened when it is first needed
  mutable std::array<Answer, 16> answers_;      // by number of the page
};

/// Whether this process may read there, and finds `token` as the mark.
bool is_marked(const MemoryPlace& place, std::uint64_t token);

/// Copies what lies `at` bytes behind the place. False: this process may not read all of it, or
/// the mark is not there any more, and `to` is whatever came.
bool read_memory(const MemoryPlace& place, std::uint64_t token, std::size_t at, std::span<char> to);

}  // namespace ddp::internal
