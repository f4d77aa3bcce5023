// SPDX-License-Identifier: Apache-2.0
// The memory of the GPU with this rank's number, modulo the number of GPUs.

#include "tests/collectives/backends/cuda/device.h"
#include "tests/collectives/backends/nccl/gpus.h"
#include "tests/collectives/training/memory.h"

namespace ddp_tests {
namespace {

class OnDevice : public Memory {
 public:
  OnDevice() {
    const int devices = count_devices();
    if (devices == 0) wrong("no GPU here");
    use_device(std::atoi(std::getenv("RANK")) % devices);
    DRIVER(cuStreamCreate, &stream_, CU_STREAM_NON_BLOCKING);
  }

  ddp::Buffer make(std::size_t count, ddp::DataType type) override {
    ddp::Buffer buffer(nullptr, count, type, stream_);
    made_.push_back(allocate(bytes_of(buffer)));
    buffer.data = made_.back().get();
    return buffer;
  }
  Allocator allocator() override {
    return {};  // the group's
  }
  void write(const ddp::Buffer& buffer, const void* from) override {
    copy_in(buffer.data, from, bytes_of(buffer));
  }
  void read(const ddp::Buffer& buffer, void* to) override {
    const auto address = reinterpret_cast<CUdeviceptr>(buffer.data);
    if (buffer.count > 0) DRIVER(cuMemcpyDtoHAsync, to, address, bytes_of(buffer), stream_);
  }
  void settle() override {
    DRIVER(cuStreamSynchronize, stream_);
    on_the_way_.clear();
  }

 private:
  std::shared_ptr<void> allocate(std::size_t bytes) {
    CUdeviceptr address = 0;
    DRIVER(cuMemAlloc, &address, bytes + 1);  // 0 bytes cannot be allocated
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA's addresses are numbers
    std::shared_ptr<void> memory(reinterpret_cast<void*>(address), [this](void* freed) {
      DRIVER(cuStreamSynchronize, stream_);
      DRIVER(cuMemFree, reinterpret_cast<CUdeviceptr>(freed));
    });
    copy_in(memory.get(), std::vector<char>(bytes).data(), bytes);
    return memory;
  }

  void copy_in(void* to, const void* from, std::size_t bytes) {
    if (bytes == 0) return;
    const char* const begin = static_cast<const char*>(from);
    on_the_way_.emplace_back(begin, begin + bytes);
    DRIVER(cuMemcpyHtoDAsync, reinterpret_cast<CUdeviceptr>(to), on_the_way_.back().data(), bytes,
           stream_);
  }

  CUstream stream_ = nullptr;
  std::vector<std::vector<char>> on_the_way_;  // the stream may not have copied these yet
  std::vector<std::shared_ptr<void>> made_;
};

}  // namespace

const char* lost_rank_1() {
  return "lost ";
}

std::unique_ptr<Memory> make_memory() {
  return std::make_unique<OnDevice>();
}

bool has_memory_for(int ranks) {
  return ddprun::tests::are_enough(ranks);
}

ddprun::tests::Variables memory_variables() {
  return ddprun::tests::on_gpu();
}

}  // namespace ddp_tests
