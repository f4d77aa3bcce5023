// SPDX-License-Identifier: Apache-2.0
#include "launcher/devices.h"

#include <algorithm>
#include <cctype>
#include <dlfcn.h>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

size_t count_entries(const fs::path& directory,
                     const std::function<bool(const std::string& name)>& counts) {
  size_t count = 0;
  std::error_code ignored;  // no directory: no entries
  for (fs::directory_iterator entry(directory, ignored), end; entry != end;
       entry.increment(ignored)) {
    if (counts(entry->path().filename())) ++count;
  }
  return count;
}

bool is_gpu_node(const std::string& name) {
  constexpr std::string_view kStem = "nvidia";
  return name.starts_with(kStem) && name.size() > kStem.size() &&
         std::all_of(name.begin() + kStem.size(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

/// The driver lists every GPU of the machine; a container may have been given the device nodes of
/// fewer, and nodes may not exist yet on a machine where nothing has used them since boot.
size_t count_by_kernel(const std::string& root) {
  const size_t known = count_entries(root + "/proc/driver/nvidia/gpus", [](auto&) { return true; });
  const size_t nodes = count_entries(root + "/dev", is_gpu_node);
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

/// The few calls of NVML's stable C interface that we need; 0 is NVML_SUCCESS everywhere.
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

  /// Every device a CUDA process could open, MIG instances instead of their GPU.
  std::optional<std::vector<std::string>> devices() const {
    unsigned count = 0;
    if (count_(&count) != 0) return std::nullopt;
    std::vector<std::string> uuids;
    size_t gpus = 0;
    bool any_mig = false;
    for (unsigned i = 0; i < count; ++i) {
      Device gpu = nullptr;
      if (handle_(i, &gpu) != 0) continue;  // not ours to open: CUDA skips it too
      ++gpus;
      const bool mig = in_mig_mode(gpu);
      any_mig = any_mig || mig;
      mig ? append_instances(gpu, uuids) : append_uuid(gpu, uuids);
    }
    return any_mig ? uuids : numbered(gpus);
  }

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };

  Nvml() = default;

  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library_.get(), name));
    return function != nullptr;
  }

  bool resolve() {
    find("nvmlDeviceGetMigMode", mig_mode_);  // drivers older than MIG lack these three
    find("nvmlDeviceGetMaxMigDeviceCount", mig_count_);
    find("nvmlDeviceGetMigDeviceHandleByIndex", mig_handle_);
    return find("nvmlInit_v2", init_) && find("nvmlShutdown", shutdown_) &&
           find("nvmlDeviceGetCount_v2", count_) &&
           find("nvmlDeviceGetHandleByIndex_v2", handle_) && find("nvmlDeviceGetUUID", uuid_);
  }

  bool in_mig_mode(Device gpu) const {
    unsigned current = 0, pending = 0;
    return mig_mode_ && mig_count_ && mig_handle_ && mig_mode_(gpu, &current, &pending) == 0 &&
           current == 1;
  }

  void append_instances(Device gpu, std::vector<std::string>& uuids) const {
    unsigned most = 0;
    if (mig_count_(gpu, &most) != 0) return;
    for (unsigned i = 0; i < most; ++i) {
      Device instance = nullptr;
      if (mig_handle_(gpu, i, &instance) == 0) append_uuid(instance, uuids);  // else a free slot
    }
  }

  void append_uuid(Device device, std::vector<std::string>& uuids) const {
    char text[96] = {};  // NVML_DEVICE_UUID_V2_BUFFER_SIZE
    if (uuid_(device, text, sizeof text) == 0) uuids.emplace_back(text);
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
};

}  // namespace

std::vector<std::string> parse_visible_devices(std::string_view list) {
  std::vector<std::string> devices;
  for (;;) {
    const size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    // Slurm writes NoDevFiles for a job without GPUs; to CUDA it is one more unknown name.
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
      if (auto devices = nvml->devices()) return *devices;
    }
  }
  return numbered(count_by_kernel(root));
}

}  // namespace ddprun::launcher
