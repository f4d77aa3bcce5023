// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace ddp::internal {

/// Returns the GPU to use: that of the calling thread's current CUDA context. Without one, the
/// process's local rank (LOCAL_RANK of ddprun and torchrun, OMPI_COMM_WORLD_LOCAL_RANK,
/// MPI_LOCALRANKID of hydra, SLURM_LOCALID) modulo the number of GPUs, as the launcher may show the
/// process only one. Without a local rank, the first GPU. Throws ddp::Error.
int choose_device();

/// A GPU with its primary context, which the CUDA runtime uses, too. Thread: any.
class CudaDevice {
 public:
  explicit CudaDevice(int device);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice();

  int number() const { return number_; }
  CUcontext context() const { return context_; }

 private:
  int number_;
  CUdevice handle_ = 0;
  CUcontext context_ = nullptr;
};

/// Makes the device the calling thread's current one for a scope.
class OnDevice {
 public:
  explicit OnDevice(const CudaDevice& device);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();
};

/// Makes the context the calling thread's for the scope of a destructor: without it CUDA may leak
/// what is destroyed. False if the context is gone: then its contents are gone, too.
class InContext {
 public:
  explicit InContext(CUcontext context) noexcept;
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;
  ~InContext();
  explicit operator bool() const { return is_current_; }

 private:
  bool is_current_;
};

/// A CUDA event: a point in the work of a stream. Thread: any.
class DeviceEvent {
 public:
  /// Made on the current device; the calls below and the destructor do not need it to be current.
  DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  ~DeviceEvent();

  void record(CUstream stream);

  /// Makes the stream's later work wait for the event.
  void make_wait(CUstream stream) const;

  /// Whether all work that was in the stream when the event was recorded is done. Throws ddp::Error
  /// if the work failed. Never blocks.
  bool is_reached() const;

  /// Blocks until is_reached(), and throws as that does.
  void wait() const;

 private:
  CUcontext context_ = nullptr;
  CUevent event_ = nullptr;
};

/// Events of one device that are reused: CUDA makes an event more slowly than it records one.
/// Thread: any.
class DeviceEvents {
 public:
  /// Returns an event that was given back, or a new one on the current device.
  std::unique_ptr<DeviceEvent> take();

  /// Streams may still wait for what was recorded in the event.
  void give_back(std::unique_ptr<DeviceEvent> event);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceEvent>> free_;
};

/// The number of the stream, which no other stream has. A handle is not unique: a destroyed stream
/// may still have work while a new stream has its handle. nullopt: the driver has no such numbers.
std::optional<unsigned long long> number_of(CUstream stream);

/// Whether the stream is being captured into a graph.
bool is_capturing(CUstream stream);

/// Lets the calling thread, for a scope, do what CUDA forbids while any thread captures in the
/// global mode: query an event, or load a kernel.
class BesideCaptures {
 public:
  BesideCaptures();
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;
  ~BesideCaptures();

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace ddp::internal
