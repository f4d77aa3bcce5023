// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/judge_node.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"

namespace ddprun::doctor {
namespace {

std::string size_text(std::int64_t bytes) {
  constexpr int kUnit = 1024;
  std::array<char, 32> text;
  const double kib = static_cast<double>(bytes) / kUnit;
  if (kib < kUnit) {
    std::snprintf(text.data(), text.size(), "%.3g KiB", kib);
  } else if (kib < kUnit * kUnit) {
    std::snprintf(text.data(), text.size(), "%.0f MiB", kib / kUnit);
  } else {
    std::snprintf(text.data(), text.size(), "%.1f GiB", kib / kUnit / kUnit);
  }
  return text.data();
}

constexpr const char* kCheck = "GPUs";
constexpr double kMuchUsed = 0.05;  // of the memory: a driver and a display need less

struct Fault {
  Level level;
  bool (*is_there)(const Gpu& gpu);
  const char* text;
  const char* remedy;
};

constexpr std::array kFaults = std::to_array<Fault>({
    {Level::fail, [](const Gpu& gpu) { return gpu.is_lost; }, "lost: it fell off the bus",
     "reboot the host; dmesg has the reason (Xid 79)"},
    {Level::fail, [](const Gpu& gpu) { return gpu.is_worn_out; },
     "faulty memory cannot be remapped any more", "take the node out; the GPU has to be replaced"},
    {Level::warn, [](const Gpu& gpu) { return gpu.needs_reset; },
     "faulty memory is remapped at the next reset", "nvidia-smi -r when nothing runs on it"},
    {Level::warn, [](const Gpu& gpu) { return gpu.uncorrected_errors > 0; },
     "uncorrected memory errors (ECC) since the last reboot",
     "nvidia-smi -q -d ECC,ROW_REMAPPER; nvidia-smi -r when nothing runs on it"},
    {Level::warn, [](const Gpu& gpu) { return gpu.memory_used > kMuchUsed; },
     "other processes hold memory",
     "nvidia-smi names the processes: another job, or one that was left"},
    {Level::warn, [](const Gpu& gpu) { return !gpu.slowed.empty(); },
     "its clocks are lowered: too hot, or short of power",
     "nvidia-smi -q -d PERFORMANCE,TEMPERATURE has the reason; look after cooling and power"},
    {Level::warn, [](const Gpu& gpu) { return gpu.links_down > 0; }, "links of NVLink are down",
     "nvidia-smi nvlink --status; with NVSwitch: systemctl status nvidia-fabricmanager"},
});

/// If no link is up, as between PCIe cards, there is no NVLink: ignores the links that are down.
std::vector<Gpu> without_unused_links(std::vector<Gpu> gpus) {
  if (std::ranges::any_of(gpus, [](const Gpu& gpu) { return gpu.links_up > 0; })) return gpus;
  for (Gpu& gpu : gpus) gpu.links_down = 0;
  return gpus;
}

std::vector<int> with(const Fault& fault, const std::vector<Gpu>& gpus) {
  std::vector<int> found;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (fault.is_there(gpus[i])) found.push_back(static_cast<int>(i));
  }
  return found;
}

Findings judge_gpus(const Facts& facts) {
  Findings findings;
  if (facts.driver_differs) {
    findings.push_back({Level::fail, kCheck,
                        "the driver's module and NVML are of different versions",
                        "load the installed module: reboot the host"});
  }
  if (facts.gpus > 0 && facts.workers > facts.gpus) {
    findings.push_back({Level::warn, kCheck,
                        count_text(facts.gpus, "GPU") + " for " +
                            count_text(facts.workers, "worker") + ": NCCL refuses two ranks on one",
                        "--nproc_per_node gpu"});
  }
  for (const std::string& error : facts.gpu_errors) {
    findings.push_back({Level::warn, kCheck, "the kernel's log since the boot has GPU " + error,
                        "reset that GPU (nvidia-smi -r) or the host, unless that was done since"});
  }
  const std::vector<Gpu> gpus = without_unused_links(facts.gpu_health);
  for (const Fault& fault : kFaults) {
    const std::vector<int> found = with(fault, gpus);
    if (found.empty()) continue;
    findings.push_back(
        {fault.level, kCheck, "GPU " + compress_ranks(found) + ": " + fault.text, fault.remedy});
  }
  if (findings.empty() && facts.gpus > 0) {
    findings.push_back(
        {Level::ok, kCheck,
         count_text(facts.gpus, "GPU") + " for " + count_text(facts.workers, "worker"), ""});
  }
  return findings;
}

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1024 * kMiB;

/// Docker's default: SIGBUS ends NCCL, and data loaders of several processes, that have no more.
constexpr std::int64_t kTooLittleSharedMemory = 64 * kMiB;
constexpr std::int64_t kLittleSharedMemory = kGiB;
constexpr std::int64_t kTooFewFiles = 256;
constexpr std::int64_t kFewFiles = 1024;
constexpr std::int64_t kLockedMemoryForFabric = kGiB;
constexpr std::int64_t kMemoryPerWorker = kGiB;
constexpr std::int64_t kLittleDisk = kGiB;
constexpr int kNoTracing = 2;  // kernel.yama.ptrace_scope: only for CAP_SYS_PTRACE, or not at all

using Judged = std::optional<Finding>;

Judged judge_program(const Facts& facts, int /*hosts*/) {
  if (facts.problem.empty()) return std::nullopt;
  return Finding{Level::fail, "program", facts.problem,
                 "install the program and its interpreter on every node, at the same path"};
}

Judged judge_workers(const Facts& facts, int /*hosts*/) {
  if (facts.workers_problem.empty()) return std::nullopt;
  return Finding{Level::fail, "workers", facts.workers_problem,
                 "nvidia-smi -L lists the GPUs of this host, and says why there are none"};
}

Judged judge_shared_memory(const Facts& facts, int /*hosts*/) {
  const std::string remedy =
      "docker run --shm-size=8g or --ipc=host; elsewhere: mount -o remount,size=8G /dev/shm";
  if (facts.shared_memory < 0) {
    return Finding{Level::fail, "shared memory", "there is no /dev/shm", remedy};
  }
  const std::string text = "/dev/shm has " + size_text(facts.shared_memory) + " free";
  if (facts.shared_memory <= kTooLittleSharedMemory) {
    return Finding{Level::fail, "shared memory", text + ": too little for NCCL and data loaders",
                   remedy};
  }
  const bool little = facts.shared_memory < kLittleSharedMemory;
  return Finding{little ? Level::warn : Level::ok, "shared memory", text, little ? remedy : ""};
}

Judged judge_open_files(const Facts& facts, int /*hosts*/) {
  const std::int64_t limit = facts.open_files;
  if (limit < 0 || limit >= kFewFiles) {
    return Finding{Level::ok, "open files",
                   limit < 0 ? "no limit" : "at most " + std::to_string(limit), ""};
  }
  return Finding{limit < kTooFewFiles ? Level::fail : Level::warn, "open files",
                 "a process may have " + std::to_string(limit) +
                     " open: too few for a connection to each rank and data loaders",
                 "ulimit -n 65536 before ddprun; nofile in /etc/security/limits.conf"};
}

Judged judge_locked_memory(const Facts& facts, int /*hosts*/) {
  if (!facts.has_fabric) return std::nullopt;
  if (facts.locked_memory < 0 || facts.locked_memory >= kLockedMemoryForFabric) {
    return Finding{Level::ok, "locked memory", "enough for RDMA", ""};
  }
  return Finding{Level::fail, "locked memory",
                 "at most " + size_text(facts.locked_memory) +
                     " may be locked: NCCL and MPI cannot register memory for InfiniBand",
                 "ulimit -l unlimited; docker run --ulimit memlock=-1; for Slurm LimitMEMLOCK of "
                 "slurmd"};
}

Judged judge_stack(const Facts& facts, int /*hosts*/) {
  if (facts.stack >= 0) return std::nullopt;
  return Finding{Level::warn, "stack", "its limit is unlimited, which NCCL does not support",
                 "ulimit -s 8192 before ddprun"};
}

Judged judge_memory(const Facts& facts, int /*hosts*/) {
  if (facts.memory < 0) return std::nullopt;
  const bool little = facts.memory < kMemoryPerWorker * facts.workers;
  return Finding{
      little ? Level::warn : Level::ok, "memory",
      "the control group has " + size_text(facts.memory) + " for " +
          count_text(facts.workers, "worker"),
      little ? "a larger limit: sbatch --mem, docker run --memory, or memory of the pod" : ""};
}

Judged judge_cpus(const Facts& facts, int /*hosts*/) {
  if (facts.cpus < 0) return std::nullopt;
  const bool few = facts.cpus < facts.workers;
  std::array<char, 32> cpus;
  std::snprintf(cpus.data(), cpus.size(), "%.3g", facts.cpus);
  return Finding{
      few ? Level::warn : Level::ok, "CPUs",
      std::string("the control group has ") + cpus.data() + " for " +
          count_text(facts.workers, "worker"),
      few ? "more of them: sbatch --cpus-per-task, docker run --cpus, or cpu of the pod" : ""};
}

Judged judge_fabric(const Facts& facts, int /*hosts*/) {
  if (!facts.has_fabric) return std::nullopt;
  if (facts.inactive_ports.empty()) {
    return Finding{Level::ok, "InfiniBand", "every port is active", ""};
  }
  std::string ports;
  for (const std::string& port : facts.inactive_ports) ports += (ports.empty() ? "" : ", ") + port;
  return Finding{
      Level::warn, "InfiniBand", "not active: " + ports,
      "ibstat names the cause (cable, subnet manager); NCCL_IB_HCA=^NAME leaves one out"};
}

Judged judge_name(const Facts& facts, int hosts) {
  if (hosts == 1 || facts.gloo_is_set) return std::nullopt;
  if (!facts.gloo_address.empty() && !is_loopback_address(facts.gloo_address)) {
    return Finding{Level::ok, "host name", "it stands for " + facts.gloo_address, ""};
  }
  const bool is_others = facts.gloo_address.empty();
  const std::string names = facts.name_address.empty()
                                ? " is unknown to the resolver"
                                : " stands for " + facts.name_address +
                                      (is_others ? ", which is no address of this host" : "");
  const std::string remedy =
      facts.interface.empty() ? "" : "GLOO_SOCKET_IFNAME=" + facts.interface + ", or ";
  return Finding{Level::fail, "host name",
                 "the host's own name" + names +
                     ": PyTorch's Gloo tells the others an address that "
                     "only this host reaches",
                 remedy + "give the name its real address in /etc/hosts"};
}

Judged judge_variables(const Facts& facts, int /*hosts*/) {
  if (facts.no_interface.empty()) return std::nullopt;
  std::string all;
  for (const std::string& each : facts.no_interface) all += (all.empty() ? "" : " and ") + each;
  return Finding{Level::fail, "interface", all + ": no interface of this name has an address here",
                 "set it to an interface that ip addr shows on this node, or unset it"};
}

Judged judge_tracing(const Facts& facts, int /*hosts*/) {
  if (facts.ptrace_scope >= kNoTracing) {
    return Finding{Level::warn, "diagnosis",
                   "kernel.yama.ptrace_scope is " + std::to_string(facts.ptrace_scope) +
                       ": after a hang ddprun cannot see where the ranks were",
                   "sysctl kernel.yama.ptrace_scope=1"};
  }
  return Finding{Level::ok, "diagnosis",
                 facts.has_py_spy ? "processes may be traced, and py-spy is there"
                                  : "processes may be traced; with py-spy (pip install py-spy) "
                                    "reports of a hang have lines of Python",
                 ""};
}

constexpr std::array kJudges = {judge_program,    judge_workers,       judge_shared_memory,
                                judge_open_files, judge_locked_memory, judge_stack,
                                judge_memory,     judge_cpus,          judge_fabric,
                                judge_name,       judge_variables,     judge_tracing};

Finding judge_folder(const Folder& folder) {
  if (!folder.error.empty()) {
    return {Level::fail, "disk", folder.path + " cannot be written: " + folder.error,
            "free space, or use another folder: --log_dir, TMPDIR"};
  }
  const bool little = folder.free >= 0 && folder.free < kLittleDisk;
  return {little ? Level::warn : Level::ok, "disk",
          folder.path +
              (folder.free < 0 ? " can be written" : " has " + size_text(folder.free) + " free"),
          little ? "free space, or use another folder: --log_dir, TMPDIR" : ""};
}

bool is_same(const Finding& one, const Finding& other) {
  return one.level == other.level && one.check == other.check && one.text == other.text &&
         one.remedy == other.remedy;
}

void add(Findings& all, Finding finding, int node) {
  const auto same =
      std::ranges::find_if(all, [&](const Finding& f) { return is_same(f, finding); });
  if (same != all.end()) {
    if (same->nodes.back() != node) same->nodes.push_back(node);
    return;
  }
  finding.nodes = {node};
  all.push_back(std::move(finding));
}

}  // namespace

bool is_loopback_address(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

Findings judge_node(const Facts& facts, int hosts) {
  if (!facts.missing.empty()) {
    return {{Level::fail, "node", facts.missing,
             "look at this node: a disk or a file server that does not answer may hold it up"}};
  }
  Findings findings;
  for (const auto& judge : kJudges) {
    if (Judged finding = judge(facts, hosts)) findings.push_back(std::move(*finding));
  }
  for (Finding& finding : judge_gpus(facts)) findings.push_back(std::move(finding));
  for (const Folder& folder : facts.folders) findings.push_back(judge_folder(folder));
  return findings;
}

Findings judge_nodes(const std::vector<Facts>& nodes) {
  const int count = static_cast<int>(nodes.size());
  std::set<std::string> hosts;
  for (const Facts& node : nodes) hosts.insert(node.host);
  Findings all;
  for (int node = 0; node < count; ++node) {
    for (Finding& finding :
         judge_node(nodes[static_cast<size_t>(node)], static_cast<int>(hosts.size()))) {
      if (count > 1 && finding.level == Level::ok) finding.text.clear();  // the nodes' texts differ
      add(all, std::move(finding), node);
    }
  }
  return all;
}

}  // namespace ddprun::doctor
