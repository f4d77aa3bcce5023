// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/place.h"

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"

namespace ddp::internal {

MemoryPlace place_of(const void* memory) {
  unsigned type = 0;  // remains for memory that CUDA does not know
  int device = 0;
  unsigned is_managed = 0;  // other programs use this size; a boolean is smaller
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* found[] = {&type, &device, &is_managed};
  const CUresult result =
      cuda().cuPointerGetAttributes(3, wanted, found, reinterpret_cast<CUdeviceptr>(memory));
  if (result != CUDA_SUCCESS) return {};  // something else's error: the call will report it
  if (type == CU_MEMORYTYPE_DEVICE && is_managed == 0) return {.is_known = true, .device = device};
  return {.is_known = type != 0, .device = std::nullopt};
}

std::optional<int> device_of(CUstream stream) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    return std::nullopt;
  }
  CUcontext context = nullptr;
  CUdevice device = 0;
  if (cuda().cuStreamGetCtx(stream, &context) != CUDA_SUCCESS) return std::nullopt;
  const InContext here(context);
  if (!here || cuda().cuCtxGetDevice(&device) != CUDA_SUCCESS) return std::nullopt;
  return device;
}

bool reaches_unknown_memory(int device) {
  int reaches = 1;  // if the driver does not say, the call is tried
  cuda().cuDeviceGetAttribute(&reaches, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device);
  return reaches != 0;
}

}  // namespace ddp::internal
