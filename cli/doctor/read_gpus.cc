// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/read_gpus.h"

#include <algorithm>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

#include "launcher/devices/gpu_errors.h"
#include "launcher/devices/gpu_use.h"
#include "launcher/devices/nvml.h"
#include "launcher/kernel/kernel_log.h"

namespace ddprun::doctor {
namespace {

using launcher::Nvml;

struct Memory {  // nvmlMemory_t of nvml.h
  unsigned long long total, free, used;
};
constexpr size_t kMostErrors = 8;  // shown
constexpr int kUncorrected = 1;    // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int kSinceReboot = 0;    // NVML_VOLATILE_ECC

/// Counts the GPU's links that are up and down.
void count_links(Gpu& gpu, const Nvml& nvml, Nvml::Device device) {
  constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS
  for (unsigned link = 0; link < kMostLinks; ++link) {
    int is_active = 0;
    if (nvml.call("nvmlDeviceGetNvLinkState", device, link, &is_active) != 0) continue;
    ++(is_active == 1 ? gpu.links_up : gpu.links_down);
  }
}

/// The first fault of each kind of each GPU.
std::vector<std::string> errors_since_boot(const std::string& kmsg) {
  std::vector<std::string> errors;
  launcher::KernelLog(launcher::KernelLog::From::boot, kmsg).read([&](std::string_view record) {
    const auto error = launcher::parse_gpu_error(record);
    if (!error || !error->of_gpu || errors.size() >= kMostErrors) return;
    std::string text = error->gpu + ": " + error->text;
    if (std::ranges::count(errors, text) == 0) errors.push_back(std::move(text));
  });
  return errors;
}

Gpu read_gpu(const Nvml& nvml, unsigned index) {
  Gpu gpu;
  int opened = 0;
  const Nvml::Device device = nvml.at(index, &opened);
  gpu.is_lost = opened == Nvml::kGpuIsLost;
  if (device == nullptr) return gpu;
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (nvml.call("nvmlDeviceGetRemappedRows", device, &corrected, &uncorrected, &pending, &failed) ==
      0) {
    gpu.needs_reset = pending != 0;
    gpu.is_worn_out = failed != 0;
  }
  unsigned long long errors = 0;
  if (nvml.call("nvmlDeviceGetTotalEccErrors", device, kUncorrected, kSinceReboot, &errors) == 0) {
    gpu.uncorrected_errors = static_cast<std::int64_t>(errors);
  }
  Memory memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == 0 && memory.total > 0) {
    gpu.memory_used = static_cast<double>(memory.used) / static_cast<double>(memory.total);
  }
  unsigned long long reasons = 0;
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == 0) {
    gpu.slowed = launcher::slowdown_text(reasons);
  }
  count_links(gpu, nvml, device);
  return gpu;
}

}  // namespace

void read_gpus(Facts& facts, const std::string& root, const std::string& nvml_library) {
  if (access((root + "/proc/driver/nvidia/version").c_str(), R_OK) != 0) return;
  facts.gpu_errors = errors_since_boot(root + "/dev/kmsg");
  const Nvml nvml(nvml_library);
  facts.driver_differs = nvml.error() == Nvml::kVersionsDiffer;
  if (nvml.error() != 0) return;
  for (unsigned i = 0; i < nvml.count(); ++i) facts.gpu_health.push_back(read_gpu(nvml, i));
}

}  // namespace ddprun::doctor
