// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/devices/nvml.h"

namespace ddprun::launcher {

/// How much of a GPU is used now, by whatever process.
struct GpuUse {
  std::uint64_t memory = 0;        ///< bytes in use; 0 beside a total of 0: unknown
  std::uint64_t memory_total = 0;  ///< bytes
  std::optional<double> busy;      ///< share of the last sample period (a second or less) in which
                                   ///< it computed, 0 to 1; nullopt: unknown, as of a MIG instance
  std::optional<double> watts;
  std::string slowed;  ///< why its clocks are lowered: "too hot"; empty: they are not, or by its
                       ///< usual power limit
};

/// Reads GPUs with NVML, which stays loaded from the first read on that finds a driver.
///
/// read() takes some 100 µs a GPU, the first one tens of milliseconds; for ever if the driver
/// hangs. For any thread, one at a time.
class GpuReader {
 public:
  explicit GpuReader(std::string nvml_library = Nvml::kLibrary, std::string root = "")
      : library_(std::move(nvml_library)), root_(std::move(root)) {}

  /// By name as in CUDA_VISIBLE_DEVICES; without those of which NVML knows nothing.
  std::map<std::string, GpuUse> read(const std::vector<std::string>& devices);

 private:
  const std::string library_;
  const std::string root_;
  std::unique_ptr<Nvml> nvml_;
};

/// "too hot" and the like for the bits of nvmlClocksThrottleReason...; empty: none of them is a
/// fault of the host.
std::string slowdown_text(unsigned long long reasons);

}  // namespace ddprun::launcher
