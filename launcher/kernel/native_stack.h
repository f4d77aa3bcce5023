// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/error.h"

namespace ddprun::launcher {

/// A call of C or C++.
struct NativeCall {
  std::string function;  ///< as short_function_name; empty: unknown
  std::string where;     ///< "model.cc:41" where there is debug information, else the library
  bool is_own = false;   ///< of the program, with a line, and not of a library of the system
};

/// A demangled name without parameters and arguments of templates, which may be pages:
/// "c10d::Work::wait".
std::string short_function_name(std::string_view name);

/// Reads the stacks of other processes, with libdw, which is loaded. For the helper process alone:
/// files with debug information may be large, and on a slow disk.
class NativeStacks {
 public:
  /// `library` is libdw's file name; another value is for tests. Errors: usage: it is not
  /// installed; system: another version.
  static Result<NativeStacks> load(const std::string& library = "libdw.so.1");

  NativeStacks(NativeStacks&&) noexcept;
  ~NativeStacks();

  /// The stack of the main thread of `pid`, the innermost call first. The thread is held still
  /// while it is read, some milliseconds: a system call such as epoll_wait ends with EINTR. Errors:
  /// as StoppedThread::stop; system: the stack cannot be read.
  Result<std::vector<NativeCall>> read(pid_t pid);

 private:
  class Library;

  explicit NativeStacks(std::unique_ptr<Library> library);

  std::unique_ptr<Library> library_;
};

}  // namespace ddprun::launcher
