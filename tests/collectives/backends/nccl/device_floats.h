// SPDX-License-Identifier: Apache-2.0
#pragma once

// The buffers of the ranks in tests on devices.

#include <condition_variable>
#include <mutex>

#include "tests/collectives/backends/cuda/device.h"

namespace ddp_tests {

inline constexpr std::size_t kCount = 1000;

/// Stops a stream until it is opened.
class Gate {
 public:
  explicit Gate(CUstream stream) {
    DRIVER(cuLaunchHostFunc, stream, [](void* gate) { static_cast<Gate*>(gate)->pass(); }, this);
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }

 private:
  void pass() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return is_open_; });
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

inline CUstream make_stream() {
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  return stream;
}

/// Floats on the current device.
class Floats {
 public:
  Floats(CUstream stream, float value, std::size_t count = kCount)
      : stream_(stream), host_(count, value), memory_(count * sizeof(float), stream) {
    memory_.write(host_.data());
  }
  ddp::DeviceSpan<float> span() const {
    return {reinterpret_cast<float*>(memory_.data()), host_.size(), stream_};
  }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(memory_.data()); }
  operator ddp::Buffer() const { return span(); }       // NOLINT(google-explicit-constructor)
  operator ddp::ConstBuffer() const { return span(); }  // NOLINT(google-explicit-constructor)

  /// Checks the elements after all work that the stream got.
  void expect(float value, const char* what) {
    memory_.read(host_.data());
    for (const float element : host_) {
      if (element == value) continue;
      wrong(std::string(what) + ": " + std::to_string(element) + ", not " + std::to_string(value));
    }
  }
  void write(float value) {
    host_.assign(host_.size(), value);
    memory_.write(host_.data());
  }

 private:
  CUstream stream_;
  std::vector<float> host_;
  DeviceMemory memory_;
};

/// The sum of each rank's own().
inline float sum_of_ranks(const ddp::ProcessGroup& group) {
  return static_cast<float>(group.size() * (group.size() + 1)) / 2;
}

inline float own(const ddp::ProcessGroup& group) {
  return static_cast<float>(group.rank() + 1);
}

}  // namespace ddp_tests
