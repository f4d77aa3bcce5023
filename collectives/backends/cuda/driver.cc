// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/driver.h"

#include <cstdlib>
#include <string>
#include <string_view>

#include "ddp/error.h"

namespace ddp::internal {
namespace {

[[noreturn]] void refuse_without_gpu() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  refuse_gpu_buffers(
      "this process sees no GPU" +
      (visible == nullptr ? "" : " (CUDA_VISIBLE_DEVICES=" + std::string(visible) + ")"));
}

void* open_driver() {
  return open_library("libcuda.so.1", "it comes with NVIDIA's driver");
}

Cuda load_cuda() {
  void* const library = open_driver();
  Cuda table;
  DDP_CUDA_FUNCTIONS(DDP_FIND_FUNCTION)
  find_optional(table.cuStreamGetId, library, "cuStreamGetId");
  const CUresult result = table.cuInit(0);
  if (result == CUDA_SUCCESS) return table;
  if (result == CUDA_ERROR_NO_DEVICE) refuse_without_gpu();
  const char* text = "unknown error";
  table.cuGetErrorString(result, &text);
  refuse_gpu_buffers(std::string("cuInit: ") + text);
}

}  // namespace

const Cuda& cuda() {
  static const LoadedLibrary<Cuda> loaded(&load_cuda);
  return loaded.table();
}

void check_cuda(CUresult result, const char* function) {
  if (result == CUDA_SUCCESS) return;
  const char* text = "unknown error";
  cuda().cuGetErrorString(result, &text);
  throw Error(ErrorKind::system, std::string("ddp: ") + function + ": " + text);
}

/// Devices are visible up to the first invalid entry.
bool may_see_gpus() noexcept {
  const char* const value = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string_view visible = value == nullptr ? "0" : value;
  if (visible.empty() || visible.starts_with('-') || visible == "NoDevFiles") return false;
  try {
    open_driver();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

int count_gpus() {
  int count = 0;
  check_cuda(cuda().cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) refuse_without_gpu();
  return count;
}

}  // namespace ddp::internal
