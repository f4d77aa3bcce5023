// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <optional>
#include <string>

#include "ddp/error.h"

namespace ddp::internal {

/// Helpers that load a vendor's library at run time as a table of its functions: a struct with a
/// pointer for each function, with the function's name.

/// Throws ddp::Error of kind usage: buffers on a GPU cannot be used, for this reason.
[[noreturn]] void refuse_gpu_buffers(const std::string& reason);

/// dlopen(); throws as refuse_gpu_buffers(), with `advice` on where to get the library. The library
/// is never closed: CUDA and NCCL have threads of their own once they were used.
void* open_library(const char* file, const char* advice);

/// dlsym(); throws as refuse_gpu_buffers().
void* find_function(void* library, const char* name);

/// Sets null if the library has no function of that name.
template <class F>
void find_optional(F*& function, void* library, const char* name) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
}

/// Macros for a list of functions X(name): DDP_FUNCTION_POINTER declares a pointer for each,
/// DDP_FIND_FUNCTION looks each up in `library` and sets it in `table`. Names of cuda.h are macros
/// for today's version of a function, so a name is expanded before it becomes text.
#define DDP_TEXT(name) #name
#define DDP_FUNCTION_POINTER(name) decltype(&::name) name = nullptr;  // NOLINT
#define DDP_FIND_FUNCTION(name) \
  table.name = reinterpret_cast<decltype(table.name)>(find_function(library, DDP_TEXT(name)));

/// Gives every thread that asks the table that `load` returned, or throws what it threw.
///
/// The constructor does not throw: under GCC 12's thread sanitizer a thread that waits for the
/// initializer of a static variable is not woken when that throws.
template <class Table>
class LoadedLibrary {
 public:
  explicit LoadedLibrary(Table (*load)()) {
    try {
      table_ = load();
    } catch (const Error& failure) {
      failure_ = failure;
    }
  }

  const Table& table() const {
    if (failure_) throw Error(*failure_);
    return table_;
  }

 private:
  Table table_;
  std::optional<Error> failure_;
};

}  // namespace ddp::internal
