// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/nvml.h"

#include <array>
#include <cstdio>
#include <unistd.h>

#include "base/number.h"

namespace ddprun::launcher {
namespace {

/// nvmlPciInfo_t of nvml.h.
struct PciInfo {
  std::array<char, 16> legacy_text;
  unsigned domain, bus, device, ids, subsystem_ids;
  std::array<char, 32> text;
};

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

bool has_nvidia_driver(const std::string& root) {
  return access((root + "/proc/driver/nvidia").c_str(), F_OK) == 0 ||
         access((root + "/dev/nvidiactl").c_str(), F_OK) == 0;
}

Nvml::Nvml(const std::string& library) : library_(dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) {
  error_ = call("nvmlInit_v2");
}

Nvml::~Nvml() {
  if (library_ && error_ == 0) call("nvmlShutdown");
}

unsigned Nvml::count() const {
  unsigned count = 0;
  return call("nvmlDeviceGetCount_v2", &count) == 0 ? count : 0;
}

Nvml::Device Nvml::at(unsigned index, int* error) const {
  Device device = nullptr;
  const int opened = call("nvmlDeviceGetHandleByIndex_v2", index, &device);
  if (error != nullptr) *error = opened;
  return opened == 0 ? device : nullptr;
}

Nvml::Device Nvml::named(const std::string& entry) const {
  if (const auto index = whole_number<unsigned>(entry)) return at(*index);
  Device device = nullptr;
  return call("nvmlDeviceGetHandleByUUID", entry.c_str(), &device) == 0 ? device : nullptr;
}

std::string Nvml::uuid(Device device) const {
  std::array<char, 96> text{};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
  const auto size = static_cast<unsigned>(text.size());
  return call("nvmlDeviceGetUUID", device, text.data(), size) == 0 ? text.data() : "";
}

std::string Nvml::address(Device device) const {
  PciInfo info = {};
  if (call("nvmlDeviceGetPciInfo_v3", device, &info) != 0) return "";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%04x:%02x:%02x.0", info.domain, info.bus, info.device);
  return text.data();
}

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
