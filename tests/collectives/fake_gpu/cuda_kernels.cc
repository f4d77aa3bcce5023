// SPDX-License-Identifier: Apache-2.0
// Kernels of the tests' driver: the kernels of libddp's PTX, by name.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/collectives/fake_gpu/driver.h"

using namespace fake_gpu;

namespace {

/// Does what the kernel of this name does: ddp_and_32.
void combine(const std::string& name, unsigned char* into, const unsigned char* from,
             std::uint64_t elements) {
  const bool is_word = name.ends_with("_32");
  const std::uint64_t bytes = is_word ? 4 * elements : elements;
  const bool is_and = name.find("_and_") != std::string::npos;
  const bool is_or = name.find("_or_") != std::string::npos;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    const int both = is_and ? into[i] & from[i] : is_or ? into[i] | from[i] : into[i] ^ from[i];
    into[i] = static_cast<unsigned char>(both);
  }
}

}  // namespace

struct CUmod_st {
  CUcontext context;
  std::string text;
  std::vector<std::unique_ptr<std::string>> functions;
};

extern "C" {

/// Waits for work on the device, as the real function may.
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (current_context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  current_context()->synchronize();
  *module = new CUmod_st{current_context(), static_cast<const char*>(image), {}};
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  require_context(module->context, "a module is unloaded");
  delete module;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (module->text.find(".entry " + std::string(name) + "(") == std::string::npos) {
    return CUDA_ERROR_NOT_FOUND;
  }
  module->functions.push_back(std::make_unique<std::string>(name));
  *function = reinterpret_cast<CUfunction>(module->functions.back().get());
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned /*blocks*/, unsigned /*y*/, unsigned /*z*/,
                        unsigned /*threads*/, unsigned /*thread_y*/, unsigned /*thread_z*/,
                        unsigned /*shared*/, CUstream stream, void** arguments, void** /*extra*/) {
  const std::string name = *reinterpret_cast<std::string*>(function);
  auto* const into = *static_cast<unsigned char**>(arguments[0]);
  const auto* const from = *static_cast<const unsigned char**>(arguments[1]);
  const auto elements = *static_cast<std::uint64_t*>(arguments[2]);
  resolve(stream)->give([=] { combine(name, into, from, elements); });
  return CUDA_SUCCESS;
}

}  // extern "C"
