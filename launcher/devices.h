// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace ddprun::launcher
