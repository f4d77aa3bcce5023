// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of CUDA's runtime that the examples use, over the tests' driver. A kernel is a function
// that is called for one thread after the other, in its stream's turn. No C++ compiler understands
// its launches, so CMakeLists.txt turns them into launch().

#include <cmath>
#include <cstddef>
#include <cuda.h>
#include <functional>
#include <memory>

#define __global__
#define cudaMemcpyHostToDevice 1
#define cudaMemcpyDeviceToHost 2

using cudaError_t = CUresult;
using cudaStream_t = CUstream;
inline constexpr cudaError_t cudaSuccess = CUDA_SUCCESS;

struct Coordinate {
  unsigned x = 0;
};
inline thread_local Coordinate gridDim, blockDim, blockIdx, threadIdx;

template <class T>
void atomicAdd(T* to, T value) {
  *to += value;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            Arguments... arguments) {
  using Work = std::function<void()>;
  auto work = std::make_unique<Work>([=] {
    gridDim.x = blocks;
    blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) kernel(arguments...);
    }
  });
  const auto run = [](void* given) { (*std::unique_ptr<Work>(static_cast<Work*>(given)))(); };
  if (blocks > 0 && cuLaunchHostFunc(nullptr, run, work.get()) == CUDA_SUCCESS) work.release();
}

inline const char* cudaGetErrorString(cudaError_t result) {
  const char* text = nullptr;
  cuGetErrorString(result, &text);
  return text;
}

inline cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

inline cudaError_t cudaSetDevice(int number) {
  CUcontext context = nullptr;
  CUdevice device = 0;
  cuInit(0);
  if (const auto result = cuDeviceGet(&device, number); result != CUDA_SUCCESS) return result;
  cuDevicePrimaryCtxRetain(&context, device);
  return cuCtxSetCurrent(context);
}

template <class T>
cudaError_t cudaMalloc(T** memory, std::size_t bytes) {
  CUdeviceptr address = 0;
  const cudaError_t result = cuMemAlloc(&address, bytes);
  *memory = reinterpret_cast<T*>(address);
  return result;
}

inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return cuStreamSynchronize(stream);
}

/// Frees when the GPU is done, like the real function.
inline cudaError_t cudaFree(void* memory) {
  cuStreamSynchronize(nullptr);
  return cuMemFree(reinterpret_cast<CUdeviceptr>(memory));
}

inline cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int /*kind*/,
                                   cudaStream_t stream) {
  return cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                       bytes, stream);
}

inline cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, int kind) {
  const cudaError_t result = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return result == cudaSuccess ? cudaStreamSynchronize(nullptr) : result;
}

inline cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  const auto set = [](char* to, std::size_t count, int to_be) {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<char>(to_be);
  };
  launch(+set, 1, 1, static_cast<char*>(memory), bytes, value);
  return cudaSuccess;
}

inline cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cuStreamCreate(stream, CU_STREAM_DEFAULT);
}

inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return cuStreamDestroy(stream);
}
