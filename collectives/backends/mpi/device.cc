// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/mpi/device.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/backends/cuda/device.h"
#include "collectives/backends/cuda/driver.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// A failure of CUDA as one of MPI: its words alone, to which the caller adds rank and call.
template <class F>
auto in_plain_words(F work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    std::string_view words = error.what();
    if (words.starts_with("ddp: ")) words.remove_prefix(5);
    throw std::runtime_error(std::string(words));
  }
}

/// For destructors: what cannot be done is left.
template <class F>
void quietly_on(const CudaDevice& device, F work) noexcept {
  try {
    const OnDevice here(device);
    work();
  } catch (const Error&) {
  }
}

/// Memory of the host that a GPU reaches by itself. On the current device.
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

/// As much of a task's memory as this rank reads or writes.
struct Extent {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;

  Extent(const void* memory, std::size_t size)
      : begin(reinterpret_cast<std::uintptr_t>(memory)), bytes(memory == nullptr ? 0 : size) {}
  std::uintptr_t end() const { return begin + bytes; }
  bool meets(const Extent& other) const {
    return bytes > 0 && other.bytes > 0 && begin < other.end() && other.begin < end();
  }
};

Extent in_of(const Task& task, int rank, int size) {
  std::size_t elements = task.count;
  switch (task.operation) {
    case Operation::broadcast:
      if (rank != task.root) elements = 0;
      break;
    case Operation::scatter:
    case Operation::scatter_v:
    case Operation::reduce_scatter:
    case Operation::reduce_scatter_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      elements = Blocks(task.send_counts, task.count, task.in == nullptr ? 0 : size).total();
      break;
    default:
      break;
  }
  return {task.in, elements * size_of(task.type)};
}

Extent out_of(const Task& task, int rank, int size) {
  std::size_t elements = task.count;
  switch (task.operation) {
    case Operation::broadcast:
      if (rank == task.root) elements = 0;
      break;
    case Operation::gather:
    case Operation::gather_v:
    case Operation::all_gather:
    case Operation::all_gather_v:
    case Operation::all_to_all:
    case Operation::all_to_all_v:
      elements = Blocks(task.recv_counts, task.count, task.out == nullptr ? 0 : size).total();
      break;
    default:
      break;
  }
  return {task.out, elements * size_of(task.type)};
}

/// Whether no code of ours looks at the data: it combines what MPI cannot, and moves aside what MPI
/// cannot do in place.
bool is_all_of_mpi(const Task& task, bool in_place) {
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

/// Where copies are made.
struct MpiDevice::Gpu {
  Gpu() : device(choose_device()) {
    const OnDevice here(device);
    check_cuda(cuda().cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
               "cuStreamCreateWithPriority");
  }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu() {
    quietly_on(device, [this] { copies.reset(); });
    cuda().cuStreamDestroy(stream);
  }

  /// Begins a copy, in either direction.
  void copy(const void* to, const void* from, std::size_t bytes) const {
    if (bytes == 0) return;
    check_cuda(cuda().cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to),
                                    reinterpret_cast<CUdeviceptr>(from), bytes, stream),
               "cuMemcpyAsync");
  }

  /// Returns when all copies that were begun are done.
  void finish() const {
    DeviceEvent done;
    done.record(stream);
    done.wait();
  }

  /// Of at least as many bytes; kept for the next task of all ranks.
  char* memory_for_copies(std::size_t bytes) {
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

class MpiDevice::LentCopies : public Lent {
 public:
  /// Waits for the data to be sent.
  LentCopies(const Gpu& gpu, std::vector<Transfer>& transfers) : gpu_(gpu) {
    for (Transfer& each : transfers) {
      const std::size_t bytes = each.count * size_of(each.type);
      auto copy = std::make_unique<PinnedMemory>(bytes);
      if (each.sends) gpu_.copy(copy->data(), each.data, bytes);
      parts_.push_back({each.sends ? nullptr : each.data, std::move(copy)});
      each.data = parts_.back().copy->data();
    }
    gpu_.finish();
  }
  ~LentCopies() override {
    quietly_on(gpu_.device, [this] { parts_.clear(); });
  }

  void bring_home() override {
    in_plain_words([this] {
      const OnDevice here(gpu_.device);
      const BesideCaptures beside;
      for (const Part& part : parts_) {
        if (part.home != nullptr) gpu_.copy(part.home, part.copy->data(), part.copy->size());
      }
      gpu_.finish();
    });
  }

 private:
  struct Part {
    void* home;  ///< null: it was sent
    std::unique_ptr<PinnedMemory> copy;
  };

  const Gpu& gpu_;
  std::vector<Part> parts_;
};

MpiDevice::MpiDevice(bool mpi_is_cuda_aware) : mpi_is_cuda_aware_(mpi_is_cuda_aware) {}
MpiDevice::~MpiDevice() = default;

void MpiDevice::mark(Task& task) {
  in_plain_words([&] {
    if (!gpu_) gpu_ = std::make_unique<Gpu>();
    const OnDevice here(gpu_->device);
    task.ready = std::make_shared<DeviceEvent>();
    task.ready->record(task.stream);
  });
}

void MpiDevice::run(const Task& task, int rank, int size,
                    const std::function<void(const Task&)>& call) {
  in_plain_words([&] {
    const OnDevice here(gpu_->device);
    const BesideCaptures beside;
    task.ready->wait();
    const Extent in = in_of(task, rank, size);
    const Extent out = out_of(task, rank, size);
    const bool in_place = task.in == task.out || in.meets(out);
    if (mpi_is_cuda_aware_ && is_all_of_mpi(task, in_place)) return call(task);

    // What lies in the other does so in the copy.
    constexpr std::size_t kAlignment = 64;
    const std::uintptr_t begin = std::min(in.begin, out.begin);
    const std::size_t beside_in = (in.bytes + kAlignment - 1) / kAlignment * kAlignment;
    const std::size_t in_at = in_place ? in.begin - begin : 0;
    const std::size_t out_at = in_place ? out.begin - begin : beside_in;
    char* const memory = gpu_->memory_for_copies(std::max(in_at + in.bytes, out_at + out.bytes));
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

std::unique_ptr<MpiDevice::Lent> MpiDevice::lend(Task& task) {
  return in_plain_words([&]() -> std::unique_ptr<Lent> {
    const OnDevice here(gpu_->device);
    const BesideCaptures beside;
    task.ready->wait();
    if (mpi_is_cuda_aware_) return nullptr;
    return std::make_unique<LentCopies>(*gpu_, task.transfers);
  });
}

}  // namespace ddp::internal
