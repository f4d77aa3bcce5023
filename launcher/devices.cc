// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriverList = "/proc/driver/nvidia/gpus";  // entries are PCI addresses

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

/// The driver lists all GPUs of the machine. A container may have device nodes for fewer, and there
/// may be none yet if no process has used a GPU since boot.
size_t count_by_kernel(const std::string& root) {
  const size_t known = entries(root + kDriverList).size();
  const std::vector<std::string> files = entries(root + "/dev");
  const auto nodes = static_cast<size_t>(std::count_if(files.begin(), files.end(), is_gpu_node));
  if (known == 0 || nodes == 0) return std::max(known, nodes);
  return std::min(known, nodes);
}

bool driver_seems_present(const std::string& root) {
  return access((root + "/proc/driver/nvidia").c_str(), F_OK) == 0 ||
         access((root + "/dev/nvidiactl").c_str(), F_OK) == 0;
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

/// The functions of NVML's stable C interface that we need; they return 0 (NVML_SUCCESS) or an
/// error.
class Nvml {
 public:
  using Device = void*;

  static std::optional<Nvml> load(const std::string& library) {
    Nvml nvml;
    nvml.library_.reset(dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL));
    if (!nvml.library_) return std::nullopt;
    if (!nvml.resolve() || nvml.init_() != 0) {
      nvml.library_.reset();  // nothing to shut down
      return std::nullopt;
    }
    return nvml;
  }
  Nvml(Nvml&&) = default;
  ~Nvml() {
    if (library_) shutdown_();
  }

  /// All GPUs that a CUDA process could open, in PCI bus order.
  std::optional<std::vector<Gpu>> gpus() const {
    unsigned count = 0;
    if (count_(&count) != 0) return std::nullopt;
    std::vector<Gpu> gpus;
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      if (handle_(i, &device) != 0) continue;  // no permission: CUDA skips it too
      Gpu& gpu = gpus.emplace_back();
      gpu.uuid = uuid(device);
      gpu.address = address(device);
      gpu.mig = in_mig_mode(device);
      if (gpu.mig) gpu.instances = instances(device);
    }
    return gpus;
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };

  /// nvmlPciInfo_t of nvml.h.
  struct PciInfo {
    std::array<char, 16> legacy_text;
    unsigned domain, bus, device, ids, subsystem_ids;
    std::array<char, 32> text;
  };

  Nvml() = default;

  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_.get(), name));
    return function != nullptr;
  }

  bool resolve() {
    find("nvmlDeviceGetMigMode", mig_mode_);  // older drivers lack these four
    find("nvmlDeviceGetMaxMigDeviceCount", mig_count_);
    find("nvmlDeviceGetMigDeviceHandleByIndex", mig_handle_);
    find("nvmlDeviceGetPciInfo_v3", pci_info_);
    return find("nvmlInit_v2", init_) && find("nvmlShutdown", shutdown_) &&
           find("nvmlDeviceGetCount_v2", count_) &&
           find("nvmlDeviceGetHandleByIndex_v2", handle_) && find("nvmlDeviceGetUUID", uuid_);
  }

  bool in_mig_mode(Device gpu) const {
    unsigned current = 0, pending = 0;
    return mig_mode_ && mig_count_ && mig_handle_ && mig_mode_(gpu, &current, &pending) == 0 &&
           current == 1;
  }

  std::vector<std::string> instances(Device gpu) const {
    std::vector<std::string> uuids;
    unsigned most = 0;
    if (mig_count_(gpu, &most) != 0) return uuids;
    for (unsigned i = 0; i < most; ++i) {
      Device instance = nullptr;
      if (mig_handle_(gpu, i, &instance) == 0)
        uuids.push_back(uuid(instance));  // otherwise a free slot
    }
    return uuids;
  }

  std::string uuid(Device device) const {
    char text[96] = {};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
    return uuid_(device, text, sizeof text) == 0 ? text : "";
  }

  std::string address(Device device) const {
    PciInfo info = {};
    if (!pci_info_ || pci_info_(device, &info) != 0) return "";
    char text[32] = {};
    std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", info.domain, info.bus, info.device);
    return text;
  }

  std::unique_ptr<void, Close> library_;
  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*handle_)(unsigned, Device*) = nullptr;
  int (*uuid_)(Device, char*, unsigned) = nullptr;
  int (*mig_mode_)(Device, unsigned*, unsigned*) = nullptr;
  int (*mig_count_)(Device, unsigned*) = nullptr;
  int (*mig_handle_)(Device, unsigned, Device*) = nullptr;
  int (*pci_info_)(Device, PciInfo*) = nullptr;
};

/// As CUDA_VISIBLE_DEVICES names them. MIG instances have no index.
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

/// The driver's list; empty unless all its GPUs have device nodes.
std::vector<Gpu> gpus_by_kernel(const std::string& root) {
  std::vector<Gpu> gpus;
  for (std::string& address : entries(root + kDriverList)) {
    gpus.emplace_back().address = std::move(address);
  }
  if (gpus.size() != count_by_kernel(root)) gpus.clear();
  return gpus;
}

std::vector<Gpu> find_gpus(const std::string& root, const std::string& nvml_library) {
  if (const std::optional<Nvml> nvml = Nvml::load(nvml_library)) {
    if (auto gpus = nvml->gpus()) return *gpus;
  }
  return gpus_by_kernel(root);
}

std::optional<int> node_of(const Gpu& gpu, const std::string& root) {
  std::ifstream file(root + "/sys/bus/pci/devices/" + gpu.address + "/numa_node");
  int node = -1;  // the kernel's value for unknown (sysfs-bus-pci)
  if (gpu.address.empty() || !(file >> node) || node < 0) return std::nullopt;
  return node;
}

}  // namespace

std::vector<std::string> parse_visible_devices(std::string_view list) {
  std::vector<std::string> devices;
  for (;;) {
    const size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    // Slurm writes NoDevFiles for a job without GPUs; CUDA ignores it as an unknown name.
    if (entry.empty() || entry == "-1" || entry == "NoDevFiles") return devices;
    devices.emplace_back(entry);
    if (comma == std::string_view::npos) return devices;
    list.remove_prefix(comma + 1);
  }
}

std::vector<std::string> find_devices(DeviceSearch search, const std::string& root,
                                      const std::string& nvml_library) {
  if (!driver_seems_present(root)) return {};
  if (search == DeviceSearch::exact) {
    if (const std::optional<Nvml> nvml = Nvml::load(nvml_library)) {
      if (const auto gpus = nvml->gpus()) return visible_names(*gpus);
    }
  }
  return numbered(count_by_kernel(root));
}

std::vector<std::optional<int>> numa_nodes(const std::vector<std::string>& devices,
                                           const std::string& root,
                                           const std::string& nvml_library) {
  std::vector<std::optional<int>> nodes(devices.size());
  if (devices.empty() || !driver_seems_present(root)) return nodes;
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
