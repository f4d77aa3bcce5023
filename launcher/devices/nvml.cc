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

}  // namespace ddprun::launcher
