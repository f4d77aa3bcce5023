// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/judge_gpus.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/doctor/texts.h"

namespace ddprun::doctor {
namespace {

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

}  // namespace

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

}  // namespace ddprun::doctor
