// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cuda/bitwise.h"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "collectives/backends/cuda/driver.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

constexpr std::size_t kWord = 4;  // bytes

/// The oldest GPU that NCCL supports.
constexpr std::string_view kHead = R"(.version 6.0
.target sm_50
.address_size 64
)";

/// for (i = first thread; i < count; i += threads) into[i] = into[i] OP from[i];
/// OP, WIDTH (bytes) and BITS are filled in.
constexpr std::string_view kKernel = R"(
.visible .entry ddp_OP_BITS(.param .u64 into, .param .u64 from, .param .u64 count) {
  .reg .pred %end;
  .reg .b32 %r<6>;
  .reg .b64 %rd<10>;
  ld.param.u64 %rd1, [into];
  ld.param.u64 %rd2, [from];
  ld.param.u64 %rd3, [count];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %ntid.x;
  mov.u32 %r3, %tid.x;
  cvt.u64.u32 %rd4, %r3;
  mul.wide.u32 %rd5, %r1, %r2;
  add.u64 %rd4, %rd4, %rd5;
  mov.u32 %r1, %nctaid.x;
  mul.wide.u32 %rd6, %r1, %r2;
again:
  setp.ge.u64 %end, %rd4, %rd3;
  @%end bra done;
  mul.lo.u64 %rd7, %rd4, WIDTH;
  add.u64 %rd8, %rd1, %rd7;
  add.u64 %rd9, %rd2, %rd7;
  ld.global.uBITS %r4, [%rd8];
  ld.global.uBITS %r5, [%rd9];
  OP.b32 %r4, %r4, %r5;
  st.global.uBITS [%rd8], %r4;
  add.u64 %rd4, %rd4, %rd6;
  bra again;
done:
  ret;
}
)";

void fill_in(std::string& text, std::string_view placeholder, const std::string& value) {
  for (std::size_t at = text.find(placeholder); at != std::string::npos;
       at = text.find(placeholder, at + value.size())) {
    text.replace(at, placeholder.size(), value);
  }
}

const char* ptx_name(ReduceOp op) {
  if (op == ReduceOp::band) return "and";
  return op == ReduceOp::bor ? "or" : "xor";
}

constexpr ReduceOp kBitwise[] = {ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};

std::string kernel_name(ReduceOp op, std::size_t width) {
  return std::string("ddp_") + ptx_name(op) + "_" + std::to_string(8 * width);
}

void launch(CUfunction kernel, char* into, const char* from, std::size_t count, CUstream stream) {
  constexpr unsigned kThreads = 256;
  constexpr std::size_t kMostBlocks = 1024;  // fills any GPU; each thread takes several elements
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min((count - 1) / kThreads + 1, kMostBlocks));
  auto elements = static_cast<std::uint64_t>(count);
  void* arguments[] = {&into, &from, &elements};
  check_cuda(
      cuda().cuLaunchKernel(kernel, blocks, 1, 1, kThreads, 1, 1, 0, stream, arguments, nullptr),
      "cuLaunchKernel");
}

}  // namespace

std::string bitwise_kernels() {
  std::string all(kHead);
  for (const ReduceOp op : kBitwise) {
    for (const std::size_t width : {std::size_t{1}, kWord}) {
      std::string kernel(kKernel);
      fill_in(kernel, "OP", ptx_name(op));
      fill_in(kernel, "WIDTH", std::to_string(width));
      fill_in(kernel, "BITS", std::to_string(8 * width));
      all += kernel;
    }
  }
  return all;
}

std::shared_ptr<const BitwiseKernels> BitwiseKernels::of(int device) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<const BitwiseKernels>> loaded;
  const std::lock_guard lock(mutex);
  auto kernels = loaded[device].lock();
  if (!kernels) loaded[device] = kernels = std::make_shared<const BitwiseKernels>(device);
  return kernels;
}

/// Also looks up the functions: with lazy loading that loads a kernel.
BitwiseKernels::BitwiseKernels(int device) : device_(device) {
  const OnDevice here(device_);
  const BesideCaptures beside;
  check_cuda(cuda().cuModuleLoadData(&module_, bitwise_kernels().c_str()), "cuModuleLoadData");
  for (const ReduceOp op : kBitwise) {
    for (const std::size_t width : {std::size_t{1}, kWord}) {
      const std::string name = kernel_name(op, width);
      check_cuda(cuda().cuModuleGetFunction(&kernels_[name], module_, name.c_str()),
                 "cuModuleGetFunction");
    }
  }
}

BitwiseKernels::~BitwiseKernels() {
  if (const InContext here(device_.context()); here) cuda().cuModuleUnload(module_);
}

void BitwiseKernels::combine(ReduceOp op, char* into, const char* from, std::size_t bytes,
                             CUstream stream) const {
  const auto alignment =
      reinterpret_cast<std::uintptr_t>(into) | reinterpret_cast<std::uintptr_t>(from);
  const std::size_t words = alignment % kWord == 0 ? bytes / kWord : 0;
  const std::size_t done = words * kWord;
  launch(kernels_.at(kernel_name(op, kWord)), into, from, words, stream);
  launch(kernels_.at(kernel_name(op, 1)), into + done, from + done, bytes - done, stream);
}

}  // namespace ddp::internal
