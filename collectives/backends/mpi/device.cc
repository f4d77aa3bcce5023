// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/device.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/backends/mpi/extent.h"
#include "collectives/backends/mpi/pinned_memory.h"
#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// Throws CUDA's errors as MPI's are: the text alone; the caller adds rank and call.
template <class F>
auto with_runtime_errors(F work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw std::runtime_error(plain_text(error));
  }
}

/// Runs `work` in a destructor: drops errors.
template <class F>
void run_quietly_on(const CudaDevice& device, F work) noexcept {
  try {
    const OnDevice here(device);
    work();
  } catch (const Error&) {
  }
}

/// Whether only MPI touches the data. Code of this library needs it in host memory: it combines
/// what MPI cannot combine, and copies what MPI cannot do in place.
bool is_done_by_mpi_alone(const Task& task, bool in_place) {
  const OperationTraits& traits = traits_of(task.operation);
  if (traits.in_blocks && traits.from == Holders::all && in_place) return false;
  if (!traits.reduces) return true;
  return size_of(task.type) > 2 && task.reduce != ReduceOp::avg;
}

/// A task's input and output on the GPU, and the places of their copies in host memory. If the two
/// overlap, so do the copies.
struct Staged {
  Staged(const Task& task, int rank, int size)
      : in(input_of(task, rank, size)), out(output_of(task, rank, size)) {
    constexpr std::size_t kAlignment = 64;
    in_place = task.in == task.out || in.overlaps(out);
    const std::uintptr_t begin = std::min(in.begin, out.begin);
    in_at = in_place ? in.begin - begin : 0;
    out_at = in_place ? out.begin - begin : (in.bytes + kAlignment - 1) / kAlignment * kAlignment;
  }

  std::size_t bytes() const { return std::max(in_at + in.bytes, out_at + out.bytes); }

  /// The task on the copies at `memory`.
  Task on_host(const Task& task, char* memory) const {
    Task copy = task;
    if (task.in != nullptr) copy.in = memory + in_at;
    if (task.out != nullptr) copy.out = memory + out_at;
    return copy;
  }

  Extent in;
  Extent out;
  bool in_place = false;
  std::size_t in_at = 0;
  std::size_t out_at = 0;
};

}  // namespace

/// The GPU, and what its copies need.
struct MpiDevice::Gpu {
  Gpu() : device(choose_device()) {
    const OnDevice here(device);
    check_cuda(cuda().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
               "cuStreamCreateWithPriority");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    run_quietly_on(device, [this] {
      copies.reset();
      messages.reset();
    });
    if (const InContext here(device.context()); here) cuda().cuStreamDestroy(stream);
  }

  /// Begins a copy in either direction between host and GPU.
  void copy(const void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    check_cuda(cuda().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                    reinterpret_cast<CUdeviceptr>(from), bytes, stream),
               "cuMemcpyAsync");
  }

  /// Waits for all copies begun so far.
  void finish() const {
    DeviceEvent done;
    done.record(stream);
    done.wait();
  }

  /// Returns host memory of at least `bytes`, kept for the next collective task.
  char* staging_memory(std::size_t bytes) {
    if (!copies || copies->size() < bytes) {
      copies.reset();
      copies = std::make_unique<PinnedMemory>(bytes);
    }
    return copies->data();
  }

  /// Lets `call` do each piece on copies. The stream keeps its order: a piece is copied while MPI
  /// moves the piece before it, and overwrites the piece two before only after that has been read.
  void run_on_copies(std::span<const Task> pieces, std::span<const Staged> staged,
                     const std::function<void(const Task&)>& call) {
    const std::size_t room = std::ranges::max(staged, {}, &Staged::bytes).bytes();
    char* const memory = staging_memory(pieces.size() > 1 ? 2 * room : room);
    DeviceEvent copied[2];
    const auto on_host = [&](std::size_t i) {
      return staged[i].on_host(pieces[i], memory + i % 2 * room);
    };
    const auto begin = [&](std::size_t i) {
      copy(on_host(i).in, pieces[i].in, staged[i].in.bytes);
      copied[i % 2].record(stream);
    };
    begin(0);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i + 1 < pieces.size()) begin(i + 1);
      copied[i % 2].wait();
      call(on_host(i));
      copy(pieces[i].out, on_host(i).out, staged[i].out.bytes);
    }
    finish();
  }

  CudaDevice device;
  CUstream stream = nullptr;
  std::unique_ptr<PinnedMemory> copies;
  std::unique_ptr<PinnedPool> messages = std::make_unique<PinnedPool>();
};

class MpiDevice::StagedCopies : public StagedMessages {
 public:
  /// Returns when the copies have the data to send.
  StagedCopies(const Gpu& gpu, std::span<Transfer> transfers) : gpu_(gpu) {
    for (Transfer& each : transfers) {
      const std::size_t bytes = each.count * size_of(each.type);
      auto copy = gpu_.messages->take(bytes);
      if (each.sends) gpu_.copy(copy->data(), each.data, bytes);
      parts_.push_back({each.sends ? nullptr : each.data, bytes, std::move(copy)});
      each.data = parts_.back().copy->data();
    }
    gpu_.finish();
  }
  ~StagedCopies() override {
    run_quietly_on(gpu_.device, [this] {
      for (Part& part : parts_) gpu_.messages->give(std::move(part.copy));
    });
  }

  void copy_back() override {
    with_runtime_errors([this] {
      const OnDevice here(gpu_.device);
      const BesideCaptures beside;
      for (const Part& part : parts_) {
        if (part.receives != nullptr) gpu_.copy(part.receives, part.copy->data(), part.bytes);
      }
      gpu_.finish();
    });
  }

 private:
  struct Part {
    void* receives;  ///< the buffer on the GPU; null for a message that is sent
    std::size_t bytes;
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

std::size_t MpiDevice::piece_bytes() const {
  return std::size_t{mpi_is_cuda_aware_ ? 16U : 4U} << 20U;
}

void MpiDevice::run(std::span<const Task> pieces, int rank, int size,
                    const std::function<void(const Task&)>& call) {
  with_runtime_errors([&] {
    const OnDevice here(gpu_->device);
    const BesideCaptures beside;
    pieces.front().ready->wait();
    std::vector<Staged> staged;
    for (const Task& piece : pieces) staged.emplace_back(piece, rank, size);
    if (mpi_is_cuda_aware_ && is_done_by_mpi_alone(pieces.front(), staged.front().in_place)) {
      for (const Task& piece : pieces) call(piece);
      return;
    }
    gpu_->run_on_copies(pieces, staged, call);
  });
}

std::unique_ptr<MpiDevice::StagedMessages> MpiDevice::stage(Task& task) {
  return with_runtime_errors([&]() -> std::unique_ptr<StagedMessages> {
    const OnDevice here(gpu_->device);
    const BesideCaptures beside;
    task.ready->wait();
    if (mpi_is_cuda_aware_) return nullptr;
    return std::make_unique<StagedCopies>(*gpu_,
                                          std::span(task.transfers.data(), task.transfers.size()));
  });
}

}  // namespace ddp::internal
