// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/device.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/backends/agreed_error.h"
#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/mpi/extent.h"
#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// Throws errors of CUDA as MPI's are: the text alone, to which the caller adds rank and call.
template <class F>
auto with_runtime_errors(F work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw std::runtime_error(plain_text(error));
  }
}

/// For destructors: drops errors.
template <class F>
void run_quietly_on(const CudaDevice& device, F work) noexcept {
  try {
    const OnDevice here(device);
    work();
  } catch (const Error&) {
  }
}

/// Host memory that the current GPU copies from and to without the CPU.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes) : bytes_(bytes) {
    if (bytes > 0) check_cuda(cuda().cuMemHostAlloc(&data_, bytes, 0), "cuMemHostAlloc");
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory() {
    if (data_ != nullptr) cuda().cuMemFreeHost(data_);
  }

  std::size_t size() const { return bytes_; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

/// Whether MPI alone touches the data. Code of this library, which needs it in host memory,
/// combines what MPI cannot, and copies what MPI cannot do in place.
bool is_done_by_mpi_alone(const Task& task, bool in_place) {
  switch (task.operation) {
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      return !in_place;
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
      if (in_place) return false;
      break;
    case Operation::reduce:
    case Operation::all_reduce:
      break;
    default:
      return true;
  }
  return size_of(task.type) > 2 && task.reduce != ReduceOp::avg;
}

}  // namespace

/// The GPU, and what copies need.
struct MpiDevice::Gpu {
  Gpu() : device(choose_device()) {
    const OnDevice here(device);
    check_cuda(cuda().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
               "cuStreamCreateWithPriority");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    run_quietly_on(device, [this] { copies.reset(); });
    if (const InContext here(device.context()); here) cuda().cuStreamDestroy(stream);
  }

  /// Begins a copy in either direction between host and GPU.
  void copy(const void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    check_cuda(cuda().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                    reinterpret_cast<CUdeviceptr>(from), bytes, stream),
               "cuMemcpyAsync");
  }

  /// Waits for all copies that were begun.
  void finish() const {
    DeviceEvent done;
    done.record(stream);
    done.wait();
  }

  /// Host memory of at least as many bytes, kept for the next collective task.
  char* staging_memory(std::size_t bytes) {
    if (!copies || copies->size() < bytes) {
      copies.reset();
      copies = std::make_unique<PinnedMemory>(bytes);
    }
    return copies->data();
  }

  CudaDevice device;
  CUstream stream = nullptr;
  std::unique_ptr<PinnedMemory> copies;
};

class MpiDevice::StagedCopies : public StagedMessages {
 public:
  /// Returns when the data to be sent is in the copies.
  StagedCopies(const Gpu& gpu, std::vector<Transfer>& transfers) : gpu_(gpu) {
    for (Transfer& each : transfers) {
      const std::size_t bytes = each.count * size_of(each.type);
      auto copy = std::make_unique<PinnedMemory>(bytes);
      if (each.sends) gpu_.copy(copy->data(), each.data, bytes);
      parts_.push_back({each.sends ? nullptr : each.data, std::move(copy)});
      each.data = parts_.back().copy->data();
    }
    gpu_.finish();
  }
  ~StagedCopies() override {
    run_quietly_on(gpu_.device, [this] { parts_.clear(); });
  }

  void copy_back() override {
    with_runtime_errors([this] {
      const OnDevice here(gpu_.device);
      const BesideCaptures beside;
      for (const Part& part : parts_) {
        if (part.receives != nullptr)
          gpu_.copy(part.receives, part.copy->data(), part.copy->size());
      }
      gpu_.finish();
    });
  }

 private:
  struct Part {
    void* receives;  ///< the buffer on the GPU; null for a message that is sent
    std::unique_ptr<PinnedMemory> copy;
  };

  const Gpu& gpu_;
  std::vector<Part> parts_;
};

MpiDevice::MpiDevice(bool mpi_is_cuda_aware) : mpi_is_cuda_aware_(mpi_is_cuda_aware) {}
MpiDevice::~MpiDevice() = default;

void MpiDevice::record_ready(Task& task) {
  with_runtime_errors([&] {
    if (!gpu_) gpu_ = std::make_unique<Gpu>();
    const OnDevice here(gpu_->device);
    task.ready = std::make_shared<DeviceEvent>();
    task.ready->record(task.stream);
  });
}

void MpiDevice::run(const Task& task, int rank, int size,
                    const std::function<void(const Task&)>& call) {
  with_runtime_errors([&] {
    const OnDevice here(gpu_->device);
    const BesideCaptures beside;
    task.ready->wait();
    const Extent in = input_of(task, rank, size);
    const Extent out = output_of(task, rank, size);
    const bool in_place = task.in == task.out || in.overlaps(out);
    if (mpi_is_cuda_aware_ && is_done_by_mpi_alone(task, in_place)) return call(task);

    // Input and output that overlap do so in the copies, too.
    constexpr std::size_t kAlignment = 64;
    const std::uintptr_t begin = std::min(in.begin, out.begin);
    const std::size_t after_in = (in.bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t in_at = in_place ? in.begin - begin : 0;
    const std::size_t out_at = in_place ? out.begin - begin : after_in;
    char* const memory = gpu_->staging_memory(std::max(in_at + in.bytes, out_at + out.bytes));
    Task copy = task;
    if (task.in != nullptr) copy.in = memory + in_at;
    if (task.out != nullptr) copy.out = memory + out_at;
    gpu_->copy(copy.in, task.in, in.bytes);
    gpu_->finish();
    call(copy);
    gpu_->copy(task.out, copy.out, out.bytes);
    gpu_->finish();
  });
}

std::unique_ptr<MpiDevice::StagedMessages> MpiDevice::stage(Task& task) {
  return with_runtime_errors([&]() -> std::unique_ptr<StagedMessages> {
    const OnDevice here(gpu_->device);
    const BesideCaptures beside;
    task.ready->wait();
    if (mpi_is_cuda_aware_) return nullptr;
    return std::make_unique<StagedCopies>(*gpu_, task.transfers);
  });
}

}  // namespace ddp::internal
