// SPDX-License-Identifier: Apache-2.0
// Prints libddp's kernels, for CUDA's assembler to check. "device_kernels run" runs them on the
// first GPU instead. Exit code: 0 success, 1 a wrong result (printed), 10 + kind for a ddp::Error
// (printed).

#include <cstdio>
#include <cstring>

#include "collectives/backends/cuda/bitwise.h"
#include "tests/collectives/backends/cuda/device.h"

using namespace ddp_tests;

namespace {

char combined(ReduceOp op, char a, char b) {
  if (op == ReduceOp::band) return static_cast<char>(a & b);
  return static_cast<char>(op == ReduceOp::bor ? a | b : a ^ b);
}

/// Also at odd addresses, where the kernel for words cannot be used. The most bytes are more words
/// than there are threads.
void check_kernel(const ddp::internal::BitwiseKernels& kernels, ReduceOp op, std::size_t bytes,
                  std::size_t begin, CUstream stream) {
  std::vector<char> into = values<char>(0, begin + bytes);
  const std::vector<char> from = values<char>(1, begin + bytes);
  const DeviceMemory there(into.size(), stream);
  const DeviceMemory beside(from.size(), stream);
  there.write(into.data());
  beside.write(from.data());
  kernels.combine(op, there.data() + begin, beside.data() + begin, bytes, stream);
  std::vector<char> expected = into;
  for (std::size_t i = begin; i < expected.size(); ++i) {
    expected[i] = combined(op, into[i], from[i]);
  }
  there.read(into.data());
  if (into != expected) wrong("a kernel over " + std::to_string(bytes) + " bytes");
}

void run() {
  use_device(0);
  CUstream stream = nullptr;
  DRIVER(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
  const auto kernels = ddp::internal::BitwiseKernels::of(0);
  for (const ReduceOp op : {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor}) {
    for (const std::size_t bytes : {1, 4, 4099, 1'100'000}) {
      for (const std::size_t begin : {0, 1}) check_kernel(*kernels, op, bytes, begin, stream);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "run") == 0) return ddprun::tests::exit_code_of(run);
  std::printf("%s", ddp::internal::bitwise_kernels().c_str());
}
