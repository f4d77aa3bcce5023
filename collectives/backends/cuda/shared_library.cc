// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/shared_library.h"

#include <dlfcn.h>

namespace ddp::internal {
namespace {

std::string last_loader_error() {
  const char* const text = ::dlerror();
  return text == nullptr ? "" : text;
}

}  // namespace

void refuse_gpu_buffers(const std::string& reason) {
  throw Error(ErrorKind::usage, "ddp: buffers on a GPU: " + reason);
}

void* open_library(const char* file, const char* advice) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse_gpu_buffers(last_loader_error() + ": " + advice);
  return library;
}

void* find_function(void* library, const char* name) {
  void* const function = ::dlsym(library, name);
  if (function == nullptr) refuse_gpu_buffers(last_loader_error() + ": it is too old");
  return function;
}

}  // namespace ddp::internal
