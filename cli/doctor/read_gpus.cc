// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/read_gpus.h"

#include <dlfcn.h>
#include <memory>
#include <unistd.h>

namespace ddprun::doctor {
namespace {

// Of nvml.h, whose interface is stable.
using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};
constexpr int kGpuIsLost = 15;       // NVML_ERROR_GPU_IS_LOST
constexpr int kVersionsDiffer = 18;  // NVML_ERROR_LIB_RM_VERSION_MISMATCH
constexpr int kUncorrected = 1;      // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kSinceReboot = 0;      // NVML_VOLATILE_ECC

struct Close {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Close>;

/// Calls a function of the library; another result than 0 is an error, as is that it is not there.
template <class... Arguments>
int call(const Library& library, const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library.get(), name));
  return function == nullptr ? -1 : function(arguments...);
}

Gpu read_gpu(const Library& nvml, unsigned index) {
  Gpu gpu;
  Device device = nullptr;
  const int opened = call(nvml, "nvmlDeviceGetHandleByIndex_v2", index, &device);
  gpu.is_lost = opened == kGpuIsLost;
  if (opened != 0) return gpu;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (call(nvml, "nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending,
           &failed) == 0) {
    gpu.needs_reset = pending != 0;
    gpu.is_worn_out = failed != 0;
  }
  unsigned long long errors = 0;
  if (call(nvml, "nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceReboot, &errors) == 0) {
    gpu.uncorrected_errors = static_cast<std::int64_t>(errors);
  }
  Memory memory{};
  if (call(nvml, "nvmlDeviceGetMemoryInfo", device, &memory) == 0 && memory.total > 0) {
    gpu.memory_used = static_cast<double>(memory.used) / static_cast<double>(memory.total);
  }
  return gpu;
}

}  // namespace

void read_gpus(Facts& facts, const std::string& root, const std::string& nvml_library) {
  if (access((root + "/proc/driver/nvidia/version").c_str(), R_OK) != 0) return;
  const Library nvml(dlopen(nvml_library.c_str(), RTLD_LAZY | RTLD_LOCAL));
  if (!nvml) return;
  const int begun = call(nvml, "nvmlInit_v2");
  facts.driver_differs = begun == kVersionsDiffer;
  if (begun != 0) return;
  unsigned count = 0;
  if (call(nvml, "nvmlDeviceGetCount_v2", &count) != 0) count = 0;
  for (unsigned i = 0; i < count; ++i) facts.gpu_health.push_back(read_gpu(nvml, i));
  call(nvml, "nvmlShutdown");
}

}  // namespace ddprun::doctor
