// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <execinfo.h>
#include <string_view>

namespace ddp::internal {

// Signal handlers may call all functions here except prepare_backtraces(). The system calls are
// those of signal-safety(7). Once libgcc is loaded, backtrace and backtrace_symbols_fd allocate
// nothing (backtrace(3)).

constexpr std::string_view kHexDigits = "0123456789abcdef";

/// A string of bounded length without allocation. Text that does not fit is dropped.
class FixedString {
 public:
  FixedString& operator<<(std::string_view text);
  FixedString& operator<<(std::uint64_t number);
  FixedString& hex(std::uint64_t number);  ///< "0x1f"

  void clear() { size_ = 0; }
  std::string_view view() const { return {bytes_.data(), size_}; }
  std::size_t room() const { return bytes_.size() - size_; }

 private:
  std::array<char, 64UL * 1024> bytes_;
  std::size_t size_ = 0;
};

/// The addresses of a stack of calls, the innermost first.
struct Backtrace {
  std::array<void*, 96> frames;
  int count = 0;

  // Inline, so that the innermost frame is the caller's.
  __attribute__((always_inline)) void capture() {
    count = backtrace(frames.data(), static_cast<int>(frames.size()));
  }

  /// Appends a line for each frame, the innermost last, without the `skip` innermost ones. If some
  /// are skipped, the frame after them is where a signal interrupted, not a return address.
  /// Repeated frames, as in a recursion, are listed once, with a line that counts the others.
  void append_to(FixedString& text, int skip) const;
};

/// Opens and loads what the functions above need. Once, not in a signal handler.
void prepare_backtraces();

}  // namespace ddp::internal
