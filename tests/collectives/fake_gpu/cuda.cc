// SPDX-License-Identifier: Apache-2.0
// The parts of CUDA's driver that libddp and its tests use, over this host's memory: the
// libcuda.so.1 of machines without GPU (devices.h says how many GPUs there are).
// FAKE_GPU_NO_HOST_MEMORY=1: it has no host memory for copies. FAKE_GPU_TELL=1: it prints the host
// memory that it gives. fake_gpu_copies() is the number of copies done. It refuses what the real
// driver forbids, if libddp might do it: no current context, a stream and an event of different
// contexts, asking for a captured event, a capture without a join of its forks, calls that a
// capture in the global mode forbids, use in a child of the process that called cuInit().

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <unistd.h>
#include <vector>

#include "tests/collectives/fake_gpu/devices.h"
#include "tests/collectives/fake_gpu/driver.h"

namespace {

using fake_gpu::is_forbidden;
using fake_gpu::require_context;
using fake_gpu::resolve;

constexpr int kMostDevices = 16;

/// Never destroyed: static objects free their memory when a thread's variables are gone.
struct Contexts {
  bool empty() const { return count == 0; }
  CUcontext back() const { return all[count - 1]; }
  void push_back(CUcontext context) { all.at(count++) = context; }
  void pop_back() { --count; }

  std::array<CUcontext, 16> all;
  std::size_t count;
};

thread_local Contexts current;

int count_devices() {
  return static_cast<int>(fake_gpu::visible_devices().size());
}

/// Lives forever, as the driver's does.
CUcontext primary_context(int device) {
  static std::mutex mutex;
  static CUcontext contexts[kMostDevices];
  const std::lock_guard lock(mutex);
  CUcontext& context = contexts[device];
  if (context == nullptr) {
    context = new CUctx_st;
    context->device = device;
    context->usual = new CUstream_st(context);
  }
  return context;
}

/// Streams live forever. free_streams has the places of destroyed ones: as in the real driver,
/// their handles are used again, even while their work is under way.
std::mutex streams_mutex;
std::vector<CUstream>& all_streams = *new std::vector<CUstream>;
std::vector<CUstream> free_streams;

CUstream make_stream(CUcontext context) {
  const std::lock_guard lock(streams_mutex);
  return all_streams.emplace_back(new CUstream_st(context));
}

/// CU_STREAM_PER_THREAD.
CUstream thread_stream(CUcontext context) {
  thread_local CUstream streams[kMostDevices];
  CUstream& stream = streams[context->device];
  if (stream == nullptr) stream = make_stream(context);
  return stream;
}

/// The process that called cuInit(); 0: none.
std::atomic<pid_t> user = 0;

}  // namespace

CUcontext fake_gpu::current_context() {
  return current.empty() ? nullptr : current.back();
}

CUstream fake_gpu::resolve(CUstream stream) {
  if (stream != nullptr && stream != CU_STREAM_PER_THREAD) return stream;
  if (current.empty()) return nullptr;
  return stream == nullptr ? current.back()->usual : thread_stream(current.back());
}

void fake_gpu::require_context(CUcontext context, const char* what) {
  if (!current.empty() && current.back() == context) return;
  std::fprintf(stderr, "the fake driver: %s without its context\n", what);
  std::abort();
}

extern "C" {

CUresult cuInit(unsigned /*flags*/) {
  pid_t nobody = 0;
  if (!user.compare_exchange_strong(nobody, ::getpid()) && nobody != ::getpid()) {
    return CUDA_ERROR_NOT_INITIALIZED;
  }
  return count_devices() == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult result, const char** text) {
  *text = result == CUDA_SUCCESS ? "no error" : "an error of the fake driver";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = count_devices();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int number) {
  if (number < 0 || number >= count_devices()) return CUDA_ERROR_INVALID_DEVICE;
  *device = number;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute /*what*/, CUdevice /*device*/) {
  *value = 0;  // for PAGEABLE_MEMORY_ACCESS
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *context = meant->context;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream stream, unsigned long long* id) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *id = meant->id;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = primary_context(device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice /*device*/) {
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current.empty() ? nullptr : current.back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (!current.empty()) current.pop_back();
  current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = current.back();
  current.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  current.back()->synchronize();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = current.back()->device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return current.empty() ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned /*flags*/, int /*priority*/) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  {
    const std::lock_guard lock(streams_mutex);
    if (!free_streams.empty()) {
      *stream = free_streams.back();
      free_streams.pop_back();
      (*stream)->begin(current.back());
      return CUDA_SUCCESS;
    }
  }
  *stream = make_stream(current.back());
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
  require_context(stream->context, "a stream is destroyed");
  stream->end();
  const std::lock_guard lock(streams_mutex);
  free_streams.push_back(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (meant->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  meant->synchronize();
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  meant->give([function, data] { function(data); });
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned /*flags*/) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *event = new CUevent_st;
  (*event)->context = current.back();
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  require_context(event->context, "an event is destroyed");
  delete event;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (meant->context != event->context) return CUDA_ERROR_INVALID_HANDLE;
  return meant->record(event);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned /*flags*/) {
  const CUstream meant = resolve(stream);
  return meant == nullptr ? CUDA_ERROR_INVALID_CONTEXT : meant->wait_for(event);
}

CUresult cuEventQuery(CUevent event) {
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (!event->state) return CUDA_SUCCESS;
  const std::lock_guard lock(event->state->mutex);
  return event->state->reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (event->state) event->state->wait();
  return CUDA_SUCCESS;
}

}  // extern "C"
