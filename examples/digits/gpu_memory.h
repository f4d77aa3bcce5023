// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cuda_runtime.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace digits {

/// Throws std::runtime_error with CUDA's message unless `result` is success.
inline void check(cudaError_t result) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(result));
  }
}

/// Allocates elements in the memory of the current GPU, not initialized.
template <class T>
std::shared_ptr<T> allocate_on_gpu(std::size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)));
  return {static_cast<T*>(memory), [](T* freed) { cudaFree(freed); }};
}

/// Copy in CUDA's default stream, and wait until the copy is done.
template <class T>
void copy_to_gpu(T* to, const std::vector<T>& from) {
  check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
}
template <class T>
void copy_to_host(std::vector<T>& to, const T* from) {
  check(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyDeviceToHost));
}

}  // namespace digits
