// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <execinfo.h>
#include <string_view>

namespace ddp::internal {

// Everything here but prepare_crash_report may be called from a signal handler: the system calls
// are those of signal-safety(7), and backtrace and backtrace_symbols_fd allocate nothing once
// libgcc is loaded (backtrace(3)).

/// A text of bounded length; what does not fit is left out.
class FixedText {
 public:
  FixedText& operator<<(std::string_view text);
  FixedText& operator<<(std::uint64_t number);
  FixedText& hex(std::uint64_t number);  ///< "0x1f"

  void clear() { size_ = 0; }
  std::string_view view() const { return {bytes_.data(), size_}; }
  std::size_t room() const { return bytes_.size() - size_; }

 private:
  std::array<char, 64UL * 1024> bytes_;
  std::size_t size_ = 0;
};

/// The calls that lead to a place in the program, the innermost one first.
struct Calls {
  std::array<void*, 96> frames;
  int count = 0;

  // Inline, so that the innermost call is the caller.
  __attribute__((always_inline)) void take() {
    count = backtrace(frames.data(), static_cast<int>(frames.size()));
  }

  /// A line for each, without the `skip` innermost ones; the innermost comes last. When some are
  /// skipped, what follows them is where a signal came, and no address to return to. Calls that
  /// come again and again, as in a recursion, are there once, and a line says how often they come.
  void describe(FixedText& text, int skip) const;
};

/// Opens and loads whatever the rest needs; `error_file` is TORCHELASTIC_ERROR_FILE, or nullptr.
void prepare_crash_report(const char* error_file);

/// Whether the calling thread is to tell what the process dies of: true once, in this process.
bool begin_crash_report();

/// Returns when no other thread is telling.
void wait_for_crash_report();

/// The file, complete; may be called again with more. Texts are UTF-8.
void write_crash_report(std::string_view message, std::string_view traceback);

void finish_crash_report();

/// All of `text` on stderr.
void print(std::string_view text);

}  // namespace ddp::internal
