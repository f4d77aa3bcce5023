// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices/devices.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "base/file_text.h"
#include "base/number.h"
#include "base/text.h"
#include "launcher/devices/nvml.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriverList = "/proc/driver/nvidia/gpus";  // its entries are PCI addresses

/// The index in an entry of CUDA_VISIBLE_DEVICES; CUDA ignores what follows the digits.
std::optional<size_t> index_of(std::string_view entry) {
  return leading_number<size_t>(entry);
}

bool is_uuid(std::string_view entry) {
  return entry.starts_with("GPU-") || entry.starts_with("MIG-");
}

std::vector<std::string> entries(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code ignored;  // no directory: no entries
  for (fs::directory_iterator entry(directory, ignored), end; entry != end;
       entry.increment(ignored)) {
    names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool is_gpu_node(const std::string& name) {
  constexpr std::string_view kStem = "nvidia";
  return name.starts_with(kStem) && name.size() > kStem.size() &&
         std::all_of(name.begin() + kStem.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The driver lists all GPUs of the machine. A container may have device nodes for fewer of them.
/// There may be no nodes yet if no process has used a GPU since boot.
size_t count_by_kernel(const std::string& root) {
  const size_t known = entries(root + kDriverList).size();
  const std::vector<std::string> files = entries(root + "/dev");
  const auto nodes = static_cast<size_t>(std::count_if(files.begin(), files.end(), is_gpu_node));
  if (known == 0 || nodes == 0) return std::max(known, nodes);
  return std::min(known, nodes);
}

std::vector<std::string> numbered(size_t count) {
  std::vector<std::string> names(count);
  for (size_t i = 0; i < count; ++i) names[i] = std::to_string(i);
  return names;
}

/// A GPU that a CUDA process could open.
struct Gpu {
  std::string uuid;
  std::string address;  // on the PCI bus, as in /sys/bus/pci/devices; empty: unknown
  bool mig = false;
  std::vector<std::string> instances;  // UUIDs of its MIG instances
};

/// Whether a name in CUDA_VISIBLE_DEVICES means this GPU or a part of it. A UUID may be
/// abbreviated, and old names of MIG instances contain their GPU's UUID.
bool names(const std::string& entry, const Gpu& gpu) {
  if (gpu.uuid.empty()) return false;
  return (entry.starts_with("GPU-") && gpu.uuid.starts_with(entry)) ||
         entry.starts_with("MIG-" + gpu.uuid + "/") ||
         std::find(gpu.instances.begin(), gpu.instances.end(), entry) != gpu.instances.end();
}

bool in_mig_mode(const Nvml& nvml, Nvml::Device gpu) {
  unsigned current = 0, pending = 0;  // older drivers lack the function
  return nvml.call("nvmlDeviceGetMigMode", gpu, &current, &pending) == 0 && current == 1;
}

std::vector<std::string> instances(const Nvml& nvml, Nvml::Device gpu) {
  std::vector<std::string> uuids;
  unsigned most = 0;
  if (nvml.call("nvmlDeviceGetMaxMigDeviceCount", gpu, &most) != 0) return uuids;
  for (unsigned i = 0; i < most; ++i) {
    Nvml::Device instance = nullptr;  // stays null if the slot is free
    if (nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", gpu, i, &instance) == 0) {
      uuids.push_back(nvml.uuid(instance));
    }
  }
  return uuids;
}

/// All GPUs that a CUDA process could open, in PCI bus order; nullopt: NVML failed.
std::optional<std::vector<Gpu>> gpus_by_nvml(const std::string& library) {
  const Nvml nvml(library);
  unsigned count = 0;
  if (nvml.error() != 0 || nvml.call("nvmlDeviceGetCount_v2", &count) != 0) return std::nullopt;
  std::vector<Gpu> gpus;
  for (unsigned i = 0; i < count; ++i) {
    const Nvml::Device device = nvml.at(i);
    if (device == nullptr) continue;  // no permission: CUDA skips it too
    Gpu& gpu = gpus.emplace_back();
    gpu.uuid = nvml.uuid(device);
    gpu.address = nvml.address(device);
    gpu.mig = in_mig_mode(nvml, device);
    if (gpu.mig) gpu.instances = instances(nvml, device);
  }
  return gpus;
}

/// The names that CUDA_VISIBLE_DEVICES uses. MIG instances have no index.
std::vector<std::string> visible_names(const std::vector<Gpu>& gpus) {
  if (std::none_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.mig; })) {
    return numbered(gpus.size());
  }
  std::vector<std::string> uuids;
  for (const Gpu& gpu : gpus) {
    uuids.insert(uuids.end(), gpu.instances.begin(), gpu.instances.end());
    if (!gpu.mig) uuids.push_back(gpu.uuid);
  }
  std::erase(uuids, "");
  return uuids;
}

/// The GPUs of the driver's list; empty unless all of them have device nodes.
std::vector<Gpu> gpus_by_kernel(const std::string& root) {
  std::vector<Gpu> gpus;
  for (std::string& address : entries(root + kDriverList)) {
    gpus.emplace_back().address = std::move(address);
  }
  if (gpus.size() != count_by_kernel(root)) gpus.clear();
  return gpus;
}

std::vector<Gpu> find_gpus(const std::string& root, const std::string& nvml_library) {
  if (auto gpus = gpus_by_nvml(nvml_library)) return *gpus;
  return gpus_by_kernel(root);
}

std::optional<int> node_of(const Gpu& gpu, const std::string& root) {
  if (gpu.address.empty()) return std::nullopt;
  const auto node = file_number(root + "/sys/bus/pci/devices/" + gpu.address + "/numa_node");
  if (!node || *node < 0) return std::nullopt;  // -1: unknown to the kernel (sysfs-bus-pci)
  return static_cast<int>(*node);
}

}  // namespace

VisibleDevices parse_visible_devices(std::string_view list) {
  VisibleDevices visible;
  std::set<std::string> seen;
  for (;;) {
    const size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    // Slurm writes NoDevFiles for a job without GPUs; CUDA ignores it as an unknown name.
    if (entry.empty() || entry == "-1" || entry == "NoDevFiles") return visible;
    const std::optional<size_t> index = index_of(entry);
    if (!index && !is_uuid(entry)) {
      visible.problem = "'" + printable(entry) + "' names no GPU";
      return visible;
    }
    const std::string name(entry);
    if (!seen.insert(index ? std::to_string(*index) : name).second) {
      return {{}, "it names " + name + " twice"};
    }
    visible.names.push_back(name);
    if (comma == std::string_view::npos) return visible;
    list.remove_prefix(comma + 1);
  }
}

VisibleDevices present_devices(VisibleDevices visible, size_t gpus) {
  if (gpus == 0 && !visible.names.empty()) return {{}, "this host has no GPU"};
  const auto absent = std::ranges::find_if(
      visible.names, [&](const std::string& name) { return index_of(name).value_or(0) >= gpus; });
  if (absent == visible.names.end()) return visible;
  visible.problem = "this host has no GPU " + *absent;
  visible.names.erase(absent, visible.names.end());
  return visible;
}

std::vector<std::string> find_devices(DeviceSearch search, const std::string& root,
                                      const std::string& nvml_library) {
  if (!has_nvidia_driver(root)) return {};
  if (search == DeviceSearch::exact) {
    if (const auto gpus = gpus_by_nvml(nvml_library)) return visible_names(*gpus);
  }
  return numbered(count_by_kernel(root));
}

std::vector<std::optional<int>> numa_nodes(const std::vector<std::string>& devices,
                                           const std::string& root,
                                           const std::string& nvml_library) {
  std::vector<std::optional<int>> nodes(devices.size());
  if (devices.empty() || !has_nvidia_driver(root)) return nodes;
  const std::vector<Gpu> gpus = find_gpus(root, nvml_library);
  for (size_t i = 0; i < devices.size(); ++i) {
    for (size_t index = 0; index < gpus.size(); ++index) {
      const bool is_meant = devices[i] == std::to_string(index) || names(devices[i], gpus[index]);
      if (is_meant) nodes[i] = node_of(gpus[index], root);
    }
  }
  return nodes;
}

}  // namespace ddprun::launcher
