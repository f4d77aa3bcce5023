// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace ddprun::launcher {

/// A call in a stack of C or C++.
struct NativeCall {
  std::string function;  ///< as short_function_name; empty: unknown
  std::string where;     ///< "model.cc:41" with debug information, else the library
  bool is_own = false;   ///< in the program, with a line, and not in a system library
};

/// A demangled name without parameters and template arguments, which may fill pages:
/// "c10d::Work::wait".
std::string short_function_name(std::string_view name);

/// Reads the stacks of other processes with libdw, which it loads. Only for the helper process:
/// files with debug information may be large, and on a slow disk.
class NativeStacks {
 public:
  /// `library` is libdw's file name; another value is for tests. Errors: usage (it is not
  /// installed), system (another version).
  static Result<NativeStacks> load(const std::string& library = "libdw.so.1");

  NativeStacks(NativeStacks&&) noexcept;
  ~NativeStacks();

  /// The stack of the main thread of `pid`, the innermost call first. Stops the thread for some
  /// milliseconds; a system call of it, such as epoll_wait, ends with EINTR. Errors: those of
  /// StoppedThread::stop; system (the stack cannot be read).
  Result<std::vector<NativeCall>> read(pid_t pid);

 private:
  class Library;

  explicit NativeStacks(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

}  // namespace ddprun::launcher
