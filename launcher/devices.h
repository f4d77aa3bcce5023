// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::launcher {

/// How much to spend on finding GPUs.
enum class DeviceSearch {
  quick,  ///< the kernel's files: microseconds, good enough to name "all of them"
  exact,  ///< NVML where it can be loaded: tens of milliseconds, sees what CUDA would see
};

/// The entries of a CUDA_VISIBLE_DEVICES list as CUDA reads it: indices, GPU-... or MIG-... names,
/// up to the first one that is empty or names no device ("-1"). Entries stay the text they are.
std::vector<std::string> parse_visible_devices(std::string_view list);

/// All GPUs of this machine, as CUDA_VISIBLE_DEVICES names them: "0", "1", ... An exact search on
/// a machine that has a GPU in MIG mode gives UUIDs: those of its MIG instances, and those of the
/// GPUs without MIG. Empty when there is none or no driver; that costs two failed system calls.
///
/// NVML comes from `nvml_library` by dlopen and stays loaded only for this call; when it is
/// missing or fails, an exact search is a quick one. Files are looked for under `root`.
std::vector<std::string> find_devices(DeviceSearch search, const std::string& root = "",
                                      const std::string& nvml_library = "libnvidia-ml.so.1");

/// The NUMA nodes that these GPUs of this machine, entries of a CUDA_VISIBLE_DEVICES list, are next
/// to, as the kernel says in /sys/bus/pci; nullopt where it does not, or where an entry is no GPU
/// that NVML or, without it, the driver's list of GPUs knows. A MIG instance is where its GPU is.
///
/// Indices are taken in the order of the PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID: CUDA's own
/// order differs only where the GPUs of a machine do.
std::vector<std::optional<int>> numa_nodes(const std::vector<std::string>& devices,
                                           const std::string& root = "",
                                           const std::string& nvml_library = "libnvidia-ml.so.1");

}  // namespace ddprun::launcher
