// SPDX-License-Identifier: Apache-2.0
// A fake of libnvidia-ml.so.1. FAKE_NVML in the environment has one word for each GPU: "gpu",
// "denied" (may not be opened), "mig" (three instance slots, the middle one free), or a word about
// its health: "lost", "pending", "worn", "ecc", "full" and "unlinked", as ddprun doctor names them,
// "hot", or "busy", which is healthy. The word "broken" alone makes initialisation fail, as with a
// driver of another version. If FAKE_NVML_GATE names a FIFO, uses are reported when somebody has
// opened it.

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

enum Status {
  kSuccess = 0,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kGpuIsLost = 15,
  kVersionMismatch = 18
};

struct Device {
  std::string uuid;
  bool denied = false;
  bool mig = false;
  std::vector<Device> instances;
  std::string health;
};

/// nvmlPciInfo_t of nvml.h.
struct PciInfo {
  char legacy_text[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char text[32];
};

std::vector<Device>& devices() {
  static std::vector<Device> all;
  return all;
}

Device& as_device(void* handle) {
  return *static_cast<Device*>(handle);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  const char* variable = std::getenv("FAKE_NVML");
  std::istringstream words(variable ? variable : "");
  devices().clear();
  for (std::string word; words >> word;) {
    if (word == "broken") return kVersionMismatch;
    const std::string number = std::to_string(devices().size());
    Device device{"GPU-" + number, word == "denied", word == "mig", {}, word};
    for (int i = 0; i < 3; ++i) {
      device.instances.push_back(
          {"MIG-" + number + "-" + std::to_string(i), i == 1, false, {}, {}});
    }
    devices().push_back(device);
  }
  return kSuccess;
}

int nvmlShutdown() {
  devices().clear();
  return kSuccess;
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(devices().size());
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (index >= devices().size()) return kInvalidArgument;
  if (devices()[index].denied) return kNoPermission;
  if (devices()[index].health == "lost") return kGpuIsLost;
  *handle = &devices()[index];
  return kSuccess;
}

/// Device number i is at 0000:0i:00.0.
int nvmlDeviceGetPciInfo_v3(void* handle, PciInfo* info) {
  info->bus = static_cast<unsigned>(&as_device(handle) - devices().data());
  return kSuccess;
}

int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) {
  std::snprintf(text, size, "%s", as_device(handle).uuid.c_str());
  return kSuccess;
}

int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  *current = *pending = as_device(handle).mig ? 1 : 0;
  return kSuccess;
}

int nvmlDeviceGetMaxMigDeviceCount(void* handle, unsigned* count) {
  *count = static_cast<unsigned>(as_device(handle).instances.size());
  return kSuccess;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void* handle, unsigned index, void** instance) {
  Device& slot = as_device(handle).instances[index];
  if (slot.denied) return kNotFound;
  *instance = &slot;
  return kSuccess;
}

int nvmlDeviceGetRemappedRows(void* handle, unsigned* corrected, unsigned* uncorrected,
                              unsigned* pending, unsigned* failed) {
  *corrected = *uncorrected = 0;
  *pending = as_device(handle).health == "pending" ? 1 : 0;
  *failed = as_device(handle).health == "worn" ? 1 : 0;
  return kSuccess;
}

int nvmlDeviceGetTotalEccErrors(void* handle, int type, int counter, unsigned long long* count) {
  const bool is_asked = type == 1 && counter == 0;  // uncorrected, since the last reboot
  *count = is_asked && as_device(handle).health == "ecc" ? 2 : 0;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long memory[3]) {
  constexpr unsigned long long kGiB = 1 << 30;
  memory[0] = 80 * kGiB;  // total, free, used
  memory[2] = as_device(handle).health == "full" ? 40 * kGiB : kGiB;
  memory[1] = memory[0] - memory[2];
  return kSuccess;
}

int nvmlDeviceGetHandleByUUID(const char* uuid, void** handle) {
  for (Device& device : devices()) {
    if (device.uuid == uuid) return *handle = &device, kSuccess;
    for (Device& instance : device.instances) {
      if (instance.uuid == uuid) return *handle = &instance, kSuccess;
    }
  }
  return kNotFound;
}

/// The rates of a MIG instance are unknown.
int nvmlDeviceGetUtilizationRates(void* handle, unsigned percent[2]) {
  if (const char* gate = std::getenv("FAKE_NVML_GATE")) close(open(gate, O_RDONLY));
  if (as_device(handle).uuid.starts_with("MIG-")) return kNotSupported;
  percent[0] = as_device(handle).health == "busy" ? 97 : 0;
  percent[1] = 0;
  return kSuccess;
}

int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  *milliwatts = as_device(handle).health == "busy" ? 512'500 : 60'000;
  return kSuccess;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void* handle, unsigned long long* reasons) {
  *reasons = as_device(handle).health == "hot" ? 0x40 | 0x08 : 0x04;  // else its power limit
  return kSuccess;
}

/// Four links; "gpu" has none, and "full" has none that works.
int nvmlDeviceGetNvLinkState(void* handle, unsigned link, int* is_active) {
  const std::string& health = as_device(handle).health;
  if (link >= 4 || health == "gpu") return kNotSupported;
  *is_active = health == "full" || (health == "unlinked" && link == 2) ? 0 : 1;
  return kSuccess;
}

}  // extern "C"
