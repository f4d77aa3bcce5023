// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace fake_gpu {

/// The GPUs that this process sees, by their numbers on the machine: all, or those that
/// CUDA_VISIBLE_DEVICES names, up to the first invalid entry. The machine has FAKE_GPUS of them (4
/// if that is not set). GPU-N is the UUID of GPU N, and MIG-N/I that of its instance I; CUDA shows
/// a process only one instance, and no other device.
inline std::vector<int> visible_devices() {
  const char* const value = std::getenv("FAKE_GPUS");
  const int all = value == nullptr ? 4 : std::atoi(value);
  std::vector<int> devices;
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) {
    for (int device = 0; device < all; ++device) devices.push_back(device);
    return devices;
  }
  std::string_view rest = visible;
  while (!rest.empty()) {
    std::string entry(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(rest.size(), entry.size() + 1));
    const bool is_instance = entry.starts_with("MIG-");
    if (is_instance || entry.starts_with("GPU-")) entry.erase(0, 4);
    char* end = nullptr;
    const auto device = static_cast<int>(std::strtol(entry.c_str(), &end, 10));
    const bool is_number = end != entry.c_str() && *end == (is_instance ? '/' : '\0');
    if (!is_number || device < 0 || device >= all) break;
    if (is_instance) return {device};
    devices.push_back(device);
  }
  return devices;
}

}  // namespace fake_gpu
