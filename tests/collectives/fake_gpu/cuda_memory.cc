// SPDX-License-Identifier: Apache-2.0
// Memory of the tests' driver, and copies.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/collectives/fake_gpu/driver.h"

using namespace fake_gpu;

namespace {

std::atomic<int> copies = 0;  // copies done

}  // namespace

extern "C" {

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  const std::optional<Memory::Piece> piece = Memory::all().find(address);
  for (unsigned i = 0; i < count; ++i) {
    auto* const value = static_cast<int*>(data[i]);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *value = piece ? piece->type : 0;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *value = piece ? piece->device : 0;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (std::getenv("FAKE_GPU_NO_HOST_MEMORY") != nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (std::getenv("FAKE_GPU_TELL") != nullptr) std::printf("pinned %zu\n", bytes);
  *memory = Memory::all().allocate(bytes, CU_MEMORYTYPE_HOST, current_context()->device);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  Memory::all().free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *address = reinterpret_cast<CUdeviceptr>(
      Memory::all().allocate(bytes, CU_MEMORYTYPE_DEVICE, current_context()->device));
  return CUDA_SUCCESS;
}

/// Waits for work on the device, as the real function does.
CUresult cuMemFree(CUdeviceptr address) {
  if (current_context() != nullptr) current_context()->synchronize();
  Memory::all().free(at(address));
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
  void* const memory =
      Memory::all().allocate(bytes, CU_MEMORYTYPE_DEVICE, resolve(stream)->context->device);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  if (resolve(stream)->capture) resolve(stream)->capture->memory.push_back(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  if (resolve(stream)->capture) return CUDA_SUCCESS;  // freed with the graph
  resolve(stream)->give([address] { Memory::all().free(at(address)); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  meant->give([=] {
    std::memcpy(at(to), at(from), bytes);
    ++copies;
  });
  return CUDA_SUCCESS;
}

int fake_gpu_copies() {
  return copies;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, std::size_t bytes,
                         CUstream stream) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  meant->give([=] { std::memset(at(address), value, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
}

}  // extern "C"
