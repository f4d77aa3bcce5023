// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/collectives/training/memory.h"

namespace ddp_tests {
namespace {

class HostMemory : public Memory {
 public:
  ddp::Buffer make(std::size_t count, ddp::DataType type) override {
    made_.emplace_back(count);  // of 8 bytes
    return {made_.back().data(), count, type};
  }
  Allocator allocator() override { return {}; }
  void write(const ddp::Buffer& buffer, const void* from) override {
    if (buffer.count > 0) std::memcpy(buffer.data, from, bytes_of(buffer));
  }
  void read(const ddp::Buffer& buffer, void* to) override {
    if (buffer.count > 0) std::memcpy(to, buffer.data, bytes_of(buffer));
  }
  void settle() override {}

 private:
  std::vector<std::vector<double>> made_;
};

}  // namespace

const char* lost_rank_1() {
  return "lost rank 1";
}

std::unique_ptr<Memory> make_memory() {
  return std::make_unique<HostMemory>();
}

bool has_memory_for(int /*ranks*/) {
  return true;
}

ddprun::tests::Variables memory_variables() {
  return {};
}

}  // namespace ddp_tests
