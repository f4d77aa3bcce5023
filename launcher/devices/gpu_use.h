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

/// How much of a GPU all processes together use now.
struct GpuUse {
  std::uint64_t memory = 0;        ///< bytes in use; unknown if the total is 0
  std::uint64_t memory_total = 0;  ///< bytes
  std::optional<double> busy;  ///< share of the last sample period (a second or less) in which it
                               ///< computed, 0 to 1; nullopt: unknown, such as for a MIG instance
  std::optional<double> watts;
  std::string slowed;  ///< why its clocks are lowered: "too hot"; empty: they are not, or only by
                       ///< its usual power limit
};

/// Reads GPUs with NVML, which stays loaded after the first read that finds a driver.
///
/// read() takes some 100 µs per GPU; the first one takes tens of milliseconds. It never returns if
/// the driver hangs. For any thread, one at a time.
class GpuReader {
 public:
  explicit GpuReader(std::string nvml_library = Nvml::kLibrary, std::string root = "")
      : library_(std::move(nvml_library)), root_(std::move(root)) {}

  /// GPUs by their name in CUDA_VISIBLE_DEVICES, without those that NVML does not know.
  std::map<std::string, GpuUse> read(const std::vector<std::string>& devices);

 private:
  const std::string library_;
  const std::string root_;
  std::unique_ptr<Nvml> nvml_;
};

/// "too hot" and the like for the bits of nvmlClocksThrottleReason...; empty: no bit is a fault of
/// the host.
std::string slowdown_text(unsigned long long reasons);

}  // namespace ddprun::launcher
