// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/gpu_use.h"

#include <array>

namespace ddprun::launcher {
namespace {

// Structures of nvml.h.
struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;  // percent
};

struct Reason {
  unsigned long long bits;
  const char* text;
};

/// nvmlClocksThrottleReason... Left out: idle, clocks that somebody has set, and the power limit,
/// which every busy GPU reaches.
constexpr std::array kSlowdowns = std::to_array<Reason>({
    {0x20 | 0x40, "too hot"},              // SwThermalSlowdown, HwThermalSlowdown
    {0x80, "its power supply limits it"},  // HwPowerBrakeSlowdown
    {0x08, "slowed by its hardware"},      // HwSlowdown
});

GpuUse use_of(const Nvml& nvml, Nvml::Device device) {
  GpuUse use;
  Memory memory{};
  if (nvml.call("nvmlDeviceGetMemoryInfo", device, &memory) == 0) {
    use.memory = memory.used;
    use.memory_total = memory.total;
  }
  Utilization utilization{};
  if (nvml.call("nvmlDeviceGetUtilizationRates", device, &utilization) == 0) {
    use.busy = utilization.gpu / 100.0;
  }
  unsigned milliwatts = 0;
  if (nvml.call("nvmlDeviceGetPowerUsage", device, &milliwatts) == 0) {
    use.watts = milliwatts / 1000.0;
  }
  unsigned long long reasons = 0;
  if (nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", device, &reasons) == 0) {
    use.slowed = slowdown_text(reasons);
  }
  return use;
}

}  // namespace

std::string slowdown_text(unsigned long long reasons) {
  for (const Reason& reason : kSlowdowns) {
    if ((reasons & reason.bits) != 0) return reason.text;
  }
  return "";
}

std::map<std::string, GpuUse> GpuReader::read(const std::vector<std::string>& devices) {
  std::map<std::string, GpuUse> uses;
  if (!nvml_ && !devices.empty() && has_nvidia_driver(root_)) {
    nvml_ = std::make_unique<Nvml>(library_);
  }
  if (!nvml_ || nvml_->error() != 0) return uses;
  for (const std::string& name : devices) {
    const Nvml::Device device = nvml_->named(name);
    if (device != nullptr) uses[name] = use_of(*nvml_, device);
  }
  return uses;
}

}  // namespace ddprun::launcher
