// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/libraries.h"

#include <cstdlib>
#include <dlfcn.h>
#include <optional>

#include "ddp/error.h"

namespace ddp::internal {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: buffers on a GPU: " + what);
}

[[noreturn]] void refuse_without_gpu() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  refuse("this process sees no GPU" +
         (visible == nullptr ? "" : " (CUDA_VISIBLE_DEVICES=" + std::string(visible) + ")"));
}

std::string last_error_of_loader() {
  const char* const text = ::dlerror();
  return text == nullptr ? "" : text;
}

/// Never closed: both have threads of their own once they were used.
void* open_library(const char* file, const char* advice) {
  void* const library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(last_error_of_loader() + ": " + advice);
  return library;
}

template <class F>
void find(void* library, const char* name, F*& function) {
  function = reinterpret_cast<F*>(::dlsym(library, name));
  if (function == nullptr) refuse(last_error_of_loader() + ": it is too old");
}

#define DDP_TEXT(name) #name
#define DDP_FIND(name) find(library, DDP_TEXT(name), table.name);

Cuda load_cuda() {
  void* const library = open_library("libcuda.so.1", "it comes with NVIDIA's driver");
  Cuda table;
  DDP_CUDA_FUNCTIONS(DDP_FIND)
  const CUresult result = table.cuInit(0);
  if (result == CUDA_SUCCESS) return table;
  if (result == CUDA_ERROR_NO_DEVICE) refuse_without_gpu();
  const char* text = "unknown error";
  table.cuGetErrorString(result, &text);
  refuse(std::string("cuInit: ") + text);
}

Nccl load_nccl() {
  void* const library = open_library("libnccl.so.2",
                                     "install NCCL (libnccl2), or put the folder that has it into "
                                     "LD_LIBRARY_PATH");
  Nccl table;
  DDP_NCCL_FUNCTIONS(DDP_FIND)
  return table;
}

#undef DDP_FIND
#undef DDP_TEXT

/// What was loaded, or why nothing was: the same for every thread that asks, however often.
template <class Table>
class Loaded {
 public:
  explicit Loaded(Table (*load)()) {
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

}  // namespace

// Their initializers do not throw: those who wait for one that does are not woken under GCC 12's
// thread sanitizer.
const Cuda& cuda() {
  static const Loaded<Cuda> loaded(&load_cuda);
  return loaded.table();
}

const Nccl& nccl() {
  static const Loaded<Nccl> loaded(&load_nccl);
  return loaded.table();
}

std::string what_nccl_says(ncclResult_t result) {
  const char* const last = nccl().ncclGetLastError(nullptr);
  return std::string(nccl().ncclGetErrorString(result)) +
         (last == nullptr || *last == '\0' ? "" : ": " + std::string(last));
}

void check_cuda(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = "unknown error";
  cuda().cuGetErrorString(result, &text);
  throw Error(ErrorKind::system, std::string("ddp: ") + what + ": " + text);
}

int count_gpus() {
  int count = 0;
  check_cuda(cuda().cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) refuse_without_gpu();
  return count;
}

}  // namespace ddp::internal
