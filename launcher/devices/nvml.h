// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::launcher {

/// Whether the kernel has NVIDIA's driver; takes two system calls. Files are under `root`.
bool has_nvidia_driver(const std::string& root = "");

/// NVML, the library of NVIDIA's driver, loaded by dlopen for the life of this object: nothing is
/// linked. Its C interface is stable; functions that an older driver lacks return kMissing.
///
/// The constructor takes tens of milliseconds; seconds if it has to start the driver. For any
/// thread, one at a time.
class Nvml {
 public:
  using Device = void*;  ///< nvmlDevice_t

  static constexpr int kMissing = -1;          ///< there is no such function or library
  static constexpr int kGpuIsLost = 15;        ///< NVML_ERROR_GPU_IS_LOST
  static constexpr int kVersionsDiffer = 18;   ///< NVML_ERROR_LIB_RM_VERSION_MISMATCH
  static constexpr int kInsufficientSize = 7;  ///< NVML_ERROR_INSUFFICIENT_SIZE
  static constexpr const char* kLibrary = "libnvidia-ml.so.1";

  explicit Nvml(const std::string& library = kLibrary);
  Nvml(Nvml&&) = default;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  /// 0, or the error of NVML's start, after which no other function can be called.
  int error() const { return error_; }

  /// Calls a function of nvml.h: 0 is NVML_SUCCESS.
  template <class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    if (!library_) return kMissing;
    auto* const function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library_.get(), name));
    return function == nullptr ? kMissing : function(arguments...);
  }

  unsigned count() const;

  /// nullptr: the GPU may not be opened, or is lost; `error`, if given, gets the reason.
  Device at(unsigned index, int* error = nullptr) const;

  /// The device that an entry of CUDA_VISIBLE_DEVICES names: an index, or the whole UUID of a GPU
  /// or a MIG instance; nullptr: no such device.
  Device named(const std::string& entry) const;

  std::string uuid(Device device) const;

  /// Its address on the PCI bus, as in /sys/bus/pci/devices; empty: unknown.
  std::string address(Device device) const;

 private:
  struct Close {
    void operator()(void* library) const { dlclose(library); }
  };
  std::unique_ptr<void, Close> library_;
  int error_ = kMissing;
};

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
