// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/read_facts.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <string_view>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/file_text.h"
#include "base/signal_masked_thread.h"
#include "launcher/devices/gpu_errors.h"
#include "launcher/devices/nvml.h"
#include "launcher/kernel/control_groups.h"
#include "launcher/kernel/kernel_log.h"
#include "launcher/kernel/process_sample.h"
#include "launcher/process/py_spy.h"
#include "rendezvous/net/addresses.h"

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

namespace {

/// More than any machine has: version 1 writes "no limit" as a large number.
constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

/// The limit in bytes; -1: there is none.
std::int64_t memory_limit(const std::string& folder) {
  std::int64_t least = -1;
  for (const char* name :
       {"/memory.max", "/memory.limit_in_bytes"}) {  // of version 2, of version 1
    const std::int64_t bytes = file_number(folder + name).value_or(kNoLimit);
    if (bytes < kNoLimit && (least < 0 || bytes < least)) least = bytes;
  }
  return least;
}

}  // namespace

ControlGroup read_control_group(const std::string& root) {
  ControlGroup limits;
  const std::string cgroup = file_text(root + "/proc/self/cgroup");
  for (const std::string& folder :
       launcher::control_groups(cgroup, "memory", root + "/sys/fs/cgroup")) {
    const std::int64_t bytes = memory_limit(folder);
    if (bytes >= 0 && (limits.memory < 0 || bytes < limits.memory)) limits.memory = bytes;
  }
  if (const auto quota = launcher::cpu_quota(cgroup, root)) limits.cpus = quota->cpus;
  return limits;
}

namespace {

namespace fs = std::filesystem;

constexpr size_t kProbeBytes = 1 << 20;
/// Longer than Python may take, and shorter than the other nodes wait.
constexpr std::chrono::seconds kReadingLimit{40};
constexpr std::array<std::string_view, 5> kVariables = {"NCCL_", "CUDA_", "GLOO_", "TORCH_",
                                                        "UCX_"};

std::string first_line(const std::string& path) {
  const std::string text = file_text(path);
  return text.substr(0, text.find('\n'));
}

std::int64_t soft_limit(decltype(RLIMIT_NOFILE) resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return -1;
  return static_cast<std::int64_t>(limit.rlim_cur);
}

std::int64_t free_bytes(const std::string& path) {
  struct statvfs status{};
  if (statvfs(path.c_str(), &status) != 0) return -1;
  return static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
}

/// The beginning of the path that exists.
fs::path existing_part(fs::path path) {
  std::error_code failed;
  while (!fs::exists(path, failed) && path.has_relative_path()) path = path.parent_path();
  return path.empty() ? "." : path;
}

/// Tries to write a file. Returns 0 or an errno. Closing its descriptor removes the file.
int write_file(const fs::path& folder) {
  std::string name = (folder / ".ddprun_doctor_XXXXXX").string();
  const Fd file(mkostemp(name.data(), O_CLOEXEC));
  if (!file) return errno;
  unlink(name.c_str());
  return write_all(file.get(), std::string(kProbeBytes, 'x'));
}

/// The model of the first GPU, after a space: " NVIDIA H100".
std::string gpu_model(const std::string& root) {
  std::error_code failed;
  for (const auto& gpu : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", failed)) {
    return " " + std::string(launcher::proc_value(file_text(gpu.path() / "information"), "Model"));
  }
  return "";
}

/// "550.54.15" of "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...".
std::string driver_version(const std::string& line) {
  for (size_t at = line.find("  "); at != std::string::npos; at = line.find("  ", at + 1)) {
    const size_t begin = line.find_first_not_of(' ', at);
    if (begin == std::string::npos || line[begin] < '0' || line[begin] > '9') continue;
    return line.substr(begin, line.find(' ', begin) - begin);
  }
  return "";
}

void read_fabric(Facts& facts, const std::string& root) {
  std::error_code failed;
  for (const auto& device : fs::directory_iterator(root + "/sys/class/infiniband", failed)) {
    for (const auto& port : fs::directory_iterator(device.path() / "ports", failed)) {
      facts.has_fabric = true;
      const std::string state = first_line(port.path() / "state");  // "4: ACTIVE"
      if (state.ends_with("ACTIVE")) continue;
      const std::string word = state.substr(std::min(state.find(' ') + 1, state.size()));
      facts.inactive_ports.push_back(device.path().filename().string() + "/" +
                                     port.path().filename().string() + " (" + word + ")");
    }
  }
  std::ranges::sort(facts.inactive_ports);
}

/// Skips variables that ddprun or a scheduler sets for each node.
void read_variables(Facts& facts, const Order& order) {
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const auto begins = [&](std::string_view prefix) { return text.starts_with(prefix); };
    const bool is_own = text.starts_with("CUDA_VISIBLE_DEVICES=") ||
                        (!order.gives_gloo_interface && text.starts_with("GLOO_SOCKET_IFNAME="));
    if (!std::ranges::any_of(kVariables, begins) || is_own) continue;
    const size_t equals = std::min(text.find('='), text.size() - 1);
    facts.variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
}

}  // namespace

Folder try_folder(const std::string& path) {
  Folder folder{path, "", -1};
  std::error_code ignored;
  const fs::path existing = existing_part(path);
  const int failure = fs::is_directory(existing, ignored) ? write_file(existing) : ENOTDIR;
  if (failure != 0) folder.error = std::generic_category().message(failure);
  folder.free = free_bytes(existing);
  return folder;
}

void read_resources(Facts& facts, const std::string& root) {
  facts.shared_memory = free_bytes(root + "/dev/shm");
  facts.open_files = soft_limit(RLIMIT_NOFILE);
  facts.locked_memory = soft_limit(RLIMIT_MEMLOCK);
  facts.stack = soft_limit(RLIMIT_STACK);
  const ControlGroup group = read_control_group(root);
  facts.memory = group.memory;
  facts.cpus = group.cpus;
  facts.ptrace_scope = std::atoi(first_line(root + "/proc/sys/kernel/yama/ptrace_scope").c_str());
}

void read_devices(Facts& facts, const Order& order, const std::string& root) {
  facts.gpus = static_cast<int>(order.devices.size());
  if (facts.gpus > 0) facts.traits["GPUs"] = std::to_string(facts.gpus) + gpu_model(root);
  const std::string driver = driver_version(first_line(root + "/proc/driver/nvidia/version"));
  if (!driver.empty()) facts.traits["driver"] = driver;
  read_fabric(facts, root);
}

Facts read_facts(const Order& order, const std::string& way) {
  Facts facts;
  facts.host = rendezvous::host_name();
  facts.problem = order.problem;
  facts.workers_problem = order.workers_problem;
  facts.workers = order.workers;
  facts.traits["ddprun"] = DDPRUN_VERSION;
  read_variables(facts, order);
  read_resources(facts);
  read_devices(facts, order);
  read_gpus(facts);
  read_network(facts, way);
  read_software(facts, order);
  facts.has_py_spy = !launcher::find_py_spy(order.python.empty() ? "/" : order.python).empty();
  for (const std::string& folder : order.folders) facts.folders.push_back(try_folder(folder));
  return facts;
}

Facts read_facts_in_time(const Order& order, const std::string& way) {
  std::packaged_task<Facts()> reading([order, way] { return read_facts(order, way); });
  std::future<Facts> facts = reading.get_future();
  signal_masked_thread(std::move(reading)).detach();
  if (facts.wait_for(kReadingLimit) == std::future_status::ready) return facts.get();
  Facts none;
  none.host = rendezvous::host_name();
  none.missing = "a disk, Python or a driver there has not answered for " +
                 std::to_string(kReadingLimit.count()) + " s";
  return none;
}

}  // namespace ddprun::doctor
