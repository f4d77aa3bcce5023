// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// How to find GPUs.
enum class DeviceSearch {
  quick,  ///< from the kernel's files: microseconds; may list GPUs that CUDA cannot open
  exact,  ///< with NVML if it can be loaded: tens of milliseconds; lists what CUDA would see
};

/// The GPUs of a CUDA_VISIBLE_DEVICES list that CUDA accepts.
struct VisibleDevices {
  std::vector<std::string> names;  ///< indices, GPU-... or MIG-... names
  std::string problem;             ///< why CUDA does not accept all entries; empty: it does
};

/// The entries of the list up to the first that names no GPU or hides the rest ("-1"). If an entry
/// occurs twice, CUDA accepts none.
VisibleDevices parse_visible_devices(std::string_view list);

/// The part of `visible` that a machine with `gpus` GPUs has: the entries before the first index
/// that is too high.
VisibleDevices present_devices(VisibleDevices visible, size_t gpus);

/// All GPUs of this machine, as CUDA_VISIBLE_DEVICES names them: "0", "1", ... If a GPU is in MIG
/// mode, an exact search returns UUIDs: those of the MIG instances and of the GPUs without MIG.
/// Empty if there is no GPU or no driver, after two failed system calls.
///
/// NVML is loaded from `nvml_library` with dlopen for this call only. If it is missing or fails, an
/// exact search is a quick one. Files are under `root`.
std::vector<std::string> find_devices(DeviceSearch search, const std::string& root = "",
                                      const std::string& nvml_library = "libnvidia-ml.so.1");

/// For each entry of a CUDA_VISIBLE_DEVICES list, the NUMA node closest to that GPU, from
/// /sys/bus/pci. nullopt: the kernel does not know it, or neither NVML nor the driver lists the
/// GPU. A MIG instance has the node of its GPU.
///
/// Indices are in PCI bus order, as with CUDA_DEVICE_ORDER=PCI_BUS_ID. CUDA's default order differs
/// from it only if the machine has different GPUs.
std::vector<std::optional<int>> numa_nodes(const std::vector<std::string>& devices,
                                           const std::string& root = "",
                                           const std::string& nvml_library = "libnvidia-ml.so.1");

}  // namespace ddprun::launcher
