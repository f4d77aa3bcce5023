// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

namespace ddp::internal {

/// The GPU to use: that of the calling thread's current CUDA context, else the one with the number
/// that the launcher gave this process on its node (LOCAL_RANK of ddprun and torchrun,
/// OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID of hydra, SLURM_LOCALID), modulo how many there are:
/// a launcher may have left it only one. Without any of these, the first. Throws ddp::Error.
int choose_device();

/// The primary context of a GPU, which is the one that the CUDA runtime uses. Thread: any.
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

/// While it lives, the device is the calling thread's current one.
class OnDevice {
 public:
  explicit OnDevice(const CudaDevice& device);
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice();
};

/// A point in the work of a stream. Thread: any.
class DeviceEvent {
 public:
  /// On the current device.
  DeviceEvent();
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  ~DeviceEvent();

  void record(CUstream stream);
  void make_wait(CUstream stream) const;

  /// Whether all that was in the stream when it was recorded is done. Throws ddp::Error, where that
  /// went wrong.
  bool is_reached() const;

  /// Returns when it is. Throws as is_reached().
  void wait() const;

 private:
  CUevent event_ = nullptr;
};

/// Whether what the stream is given now goes into a graph.
bool is_capturing(CUstream stream);

/// While it lives, the calling thread may do what a capture in another thread would forbid it: ask
/// whether an event is reached, load a kernel.
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
