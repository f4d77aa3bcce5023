// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helpers of programs that use a GPU through CUDA's driver, which they load as libddp does.

#include <algorithm>
#include <cstddef>
#include <cuda.h>
#include <dlfcn.h>
#include <span>
#include <string>
#include <vector>

#include "tests/collectives/call/operations.h"

namespace ddp_tests {

/// The driver, real or fake, as the loader finds it.
inline void* driver() {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  return library;
}

template <class F>
F* driver_function(const char* name) {
  auto* const function = reinterpret_cast<F*>(::dlsym(driver(), name));
  if (function == nullptr) wrong(std::string("the driver has no ") + name);
  return function;
}

inline void check_driver(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) wrong(std::string(what) + ": " + std::to_string(result));
}

// The current version of a function, which a macro of cuda.h names.
#define DRIVER_TEXT(name) #name
#define DRIVER_FUNCTION(name) ddp_tests::driver_function<decltype(::name)>(DRIVER_TEXT(name))
#define DRIVER(name, ...) \
  ddp_tests::check_driver(DRIVER_FUNCTION(name)(__VA_ARGS__), DRIVER_TEXT(name))

/// The number of GPUs; 0 without a driver.
inline int count_devices() {
  int count = 0;
  if (driver() == nullptr || DRIVER_FUNCTION(cuInit)(0) != CUDA_SUCCESS) return 0;
  return DRIVER_FUNCTION(cuDeviceGetCount)(&count) == CUDA_SUCCESS ? count : 0;
}

/// Makes a device the calling thread's current one.
inline void use_device(int number) {
  CUcontext context = nullptr;
  DRIVER(cuInit, 0);
  DRIVER(cuDevicePrimaryCtxRetain, &context, number);
  DRIVER(cuCtxSetCurrent, context);
}

/// Elements in a device's memory, and a stream of their own or another's.
class DeviceMemory {
 public:
  DeviceMemory(std::size_t bytes, CUstream stream) : bytes_(bytes), stream_(stream) {
    DRIVER(cuMemAlloc, &address_, bytes + 1);  // 0 bytes cannot be allocated
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    DRIVER(cuStreamSynchronize, stream_);
    DRIVER(cuMemFree, address_);
  }

  void write(const void* from) const {
    if (bytes_ > 0) DRIVER(cuMemcpyHtoDAsync, address_, from, bytes_, stream_);
  }
  void read(void* to) const {
    if (bytes_ > 0) DRIVER(cuMemcpyDtoHAsync, to, address_, bytes_, stream_);
    DRIVER(cuStreamSynchronize, stream_);
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA's addresses are numbers
  char* data() const { return reinterpret_cast<char*>(address_); }

 private:
  std::size_t bytes_;
  CUstream stream_;
  CUdeviceptr address_ = 0;
};

/// A ProcessGroup whose calls take buffers in host memory, and use copies on the device. If a
/// buffer lies in another, so does its copy.
class DeviceGroup {
 public:
  static constexpr bool kRoundsEachStep = true;

  explicit DeviceGroup(ddp::ProcessGroup& group) : group_(group) {
    DRIVER(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  }

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  bool has_bits() const { return group_.backend() != "nccl"; }

  using Buffer = ddp::Buffer;
  using ConstBuffer = ddp::ConstBuffer;
  using Counts = ddp::ProcessGroup::Counts;

  void broadcast(Buffer data, int root) {
    on_device(data, data, [&](auto, Buffer there) { group_.broadcast(there, root); });
  }
  void reduce(ConstBuffer in, Buffer out, int root, ReduceOp op) {
    on_device(in, out, [&](auto from, auto to) { group_.reduce(from, to, root, op); });
  }
  void reduce(Buffer data, int root, ReduceOp op) { reduce(data, data, root, op); }
  void all_reduce(ConstBuffer in, Buffer out, ReduceOp op) {
    on_device(in, out, [&](auto from, auto to) { group_.all_reduce(from, to, op); });
  }
  void all_reduce(Buffer data, ReduceOp op = ReduceOp::sum) { all_reduce(data, data, op); }
  void gather(ConstBuffer in, Buffer out, int root) {
    on_device(in, out, [&](auto from, auto to) { group_.gather(from, to, root); });
  }
  void gather_v(ConstBuffer in, Buffer out, Counts counts, int root) {
    on_device(in, out, [&](auto from, auto to) { group_.gather_v(from, to, counts, root); });
  }
  void all_gather(ConstBuffer in, Buffer out) {
    on_device(in, out, [&](auto from, auto to) { group_.all_gather(from, to); });
  }
  void all_gather_v(ConstBuffer in, Buffer out, Counts counts) {
    on_device(in, out, [&](auto from, auto to) { group_.all_gather_v(from, to, counts); });
  }
  void scatter(ConstBuffer in, Buffer out, int root) {
    on_device(in, out, [&](auto from, auto to) { group_.scatter(from, to, root); });
  }
  void scatter_v(ConstBuffer in, Counts counts, Buffer out, int root) {
    on_device(in, out, [&](auto from, auto to) { group_.scatter_v(from, counts, to, root); });
  }
  void reduce_scatter(ConstBuffer in, Buffer out, ReduceOp op = ReduceOp::sum) {
    on_device(in, out, [&](auto from, auto to) { group_.reduce_scatter(from, to, op); });
  }
  void reduce_scatter_v(ConstBuffer in, Buffer out, Counts counts, ReduceOp op) {
    on_device(in, out, [&](auto from, auto to) { group_.reduce_scatter_v(from, to, counts, op); });
  }
  void all_to_all(ConstBuffer in, Buffer out) {
    on_device(in, out, [&](auto from, auto to) { group_.all_to_all(from, to); });
  }
  void all_to_all_v(ConstBuffer in, Counts send, Buffer out, Counts recv) {
    on_device(in, out, [&](auto from, auto to) { group_.all_to_all_v(from, send, to, recv); });
  }

 private:
  using Bytes = std::span<const char>;

  template <class B>
  static Bytes bytes_of(const B& buffer) {
    constexpr std::size_t kWidths[] = {2, 2, 4, 8, 1, 1, 4, 8, 2,
                                       2, 4, 8, 1, 1, 1, 8, 16};  // by DataType
    return {static_cast<const char*>(buffer.data),
            buffer.count * (buffer.type == ddp::DataType::opaque
                                ? buffer.width
                                : kWidths[static_cast<std::size_t>(buffer.type)])};
  }

  /// Whether `part` lies in `whole`, in host memory.
  static bool is_in(Bytes part, Bytes whole) {
    return !part.empty() && part.data() >= whole.data() &&
           part.data() + part.size() <= whole.data() + whole.size();
  }

  template <class Call>
  void on_device(const ConstBuffer& in, const Buffer& out, const Call& call) {
    const Bytes from = bytes_of(in);
    const Bytes to = bytes_of(out);
    const bool is_out_in_in = is_in(to, from);
    const Bytes first = is_out_in_in ? from : to;  // contains both, if they share memory
    const bool is_shared = is_out_in_in || is_in(from, to);
    const DeviceMemory there(first.size(), stream_);
    const DeviceMemory beside(is_shared ? 0 : from.size(), stream_);
    there.write(first.data());
    if (!is_shared) beside.write(from.data());
    const char* const from_there =
        is_shared ? there.data() + (from.data() - first.data()) : beside.data();
    char* const to_there = there.data() + (to.empty() ? 0 : to.data() - first.data());
    ConstBuffer in_there(from_there, in.count, in.type, stream_);
    in_there.width = in.width;
    Buffer out_there(to_there, out.count, out.type, stream_);
    out_there.width = out.width;
    call(in_there, out_there);
    std::vector<char> back(first.size());
    there.read(back.data());
    if (!to.empty()) {
      std::ranges::copy(
          std::span(back).subspan(static_cast<std::size_t>(to.data() - first.data()), to.size()),
          static_cast<char*>(out.data));
    }
  }

  ddp::ProcessGroup& group_;
  CUstream stream_ = nullptr;
};

}  // namespace ddp_tests
