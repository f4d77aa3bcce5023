// SPDX-License-Identifier: Apache-2.0
// CUDA's driver, as far as libddp and its tests use it, over this host's memory: libcuda.so.1 where
// there is no GPU (devices.h says how many there are). FAKE_GPU_NO_HOST_MEMORY=1: it has no host
// memory for copies; FAKE_GPU_TELL=1: it prints what it gives of it. fake_gpu_copies() is the
// number of copies that are done. What the real one forbids is refused here, too, as far as libddp
// might do it: no current context, a stream and an event of different ones, asking for an event
// that was captured, a capture that forks are not joined to, calls that a capture in the global
// mode forbids, use in a child of the process that called cuInit().

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unistd.h>

#include "tests/collectives/fake_gpu/devices.h"
#include "tests/collectives/fake_gpu/stream.h"

namespace {

using fake_gpu::Capture;

constexpr int kMostDevices = 16;

/// Not to be destroyed: what is static frees its memory when a thread's variables are gone.
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

/// For ever, as the driver's are.
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

/// Null, where there is no context.
CUstream resolve(CUstream stream) {
  if (stream != nullptr) return stream;
  return current.empty() ? nullptr : current.back()->usual;
}

void* at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

/// Allocations, by address. Not to be destroyed, as the contexts are not.
class Memory {
 public:
  struct Piece {
    std::size_t bytes;
    CUmemorytype type;
    int device;
  };

  static Memory& all() {
    static auto* const memory = new Memory;
    return *memory;
  }

  void* allocate(std::size_t bytes, CUmemorytype type, int device) {
    void* const address = std::malloc(bytes);
    const std::lock_guard lock(mutex_);
    pieces_[static_cast<char*>(address)] = {bytes, type, device};
    return address;
  }

  void free(void* address) {
    {
      const std::lock_guard lock(mutex_);
      pieces_.erase(static_cast<char*>(address));
    }
    std::free(address);
  }

  /// nullopt: none of this driver's.
  std::optional<Piece> find(CUdeviceptr address) {
    auto* const place = static_cast<char*>(at(address));
    const std::lock_guard lock(mutex_);
    const auto after = pieces_.upper_bound(place);
    if (after == pieces_.begin()) return std::nullopt;
    const auto& [begin, piece] = *std::prev(after);
    return place < begin + piece.bytes ? std::optional(piece) : std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::map<char*, Piece> pieces_;
};

std::atomic<int> copies = 0;  // that are done

/// The process that has called cuInit(); 0: none.
std::atomic<pid_t> user = 0;

/// Captures in the global mode. Until they end, no thread may do certain things in that mode.
std::atomic<int> global_captures = 0;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool is_forbidden() {
  return global_captures > 0 && capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

/// The real driver may leak or crash without it.
void require_context(CUcontext context, const char* what) {
  if (!current.empty() && current.back() == context) return;
  std::fprintf(stderr, "the fake driver: %s without its context\n", what);
  std::abort();
}

/// Replaces its elements, by the name of the kernel: ddp_and_32.
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
  *value = 0;  // of PAGEABLE_MEMORY_ACCESS
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  const std::optional<Memory::Piece> piece = Memory::all().find(address);
  for (unsigned i = 0; i < count; ++i) {
    auto* const value = static_cast<int*>(data[i]);
    if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) *value = piece ? piece->type : 0;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) *value = piece ? piece->device : 0;
    if (attributes[i] == CU_POINTER_ATTRIBUTE_IS_MANAGED) *value = 0;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  *context = stream->context;
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
  *stream = new CUstream_st(current.back());
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  return cuStreamCreateWithPriority(stream, flags, 0);
}

CUresult cuStreamDestroy(CUstream stream) {
  require_context(stream->context, "a stream is destroyed");
  delete stream;
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
  const std::lock_guard lock(event->state->mutex);
  return event->state->reached == event->state->recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event) {
  if (event->capture) return CUDA_ERROR_CAPTURED_EVENT;
  std::unique_lock lock(event->state->mutex);
  const unsigned number = event->state->recorded;
  event->state->changed.wait(lock, [&] { return event->state->reached >= number; });
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (std::getenv("FAKE_GPU_NO_HOST_MEMORY") != nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (std::getenv("FAKE_GPU_TELL") != nullptr) std::printf("pinned %zu\n", bytes);
  *memory = Memory::all().allocate(bytes, CU_MEMORYTYPE_HOST, current.back()->device);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* memory) {
  Memory::all().free(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* address, std::size_t bytes) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *address = reinterpret_cast<CUdeviceptr>(
      Memory::all().allocate(bytes, CU_MEMORYTYPE_DEVICE, current.back()->device));
  return CUDA_SUCCESS;
}

/// Waits for what runs on the device, as the real one does.
CUresult cuMemFree(CUdeviceptr address) {
  if (!current.empty()) current.back()->synchronize();
  Memory::all().free(at(address));
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr* address, std::size_t bytes, CUstream stream) {
  void* const memory =
      Memory::all().allocate(bytes, CU_MEMORYTYPE_DEVICE, resolve(stream)->context->device);
  *address = reinterpret_cast<CUdeviceptr>(memory);
  if (resolve(stream)->capture) resolve(stream)->capture->memory.push_back(memory);
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  if (resolve(stream)->capture) return CUDA_SUCCESS;  // with the graph
  resolve(stream)->give([address] { Memory::all().free(at(address)); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  meant->give([=] {
    std::memcpy(at(to), at(from), bytes);
    ++copies;
  });
  return CUDA_SUCCESS;
}

int fake_gpu_copies() {
  return copies;
}

CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, std::size_t bytes,
                         CUstream stream) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  meant->give([=] { std::memset(at(address), value, bytes); });
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return cuMemcpyAsync(to, reinterpret_cast<CUdeviceptr>(from), bytes, stream);
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return cuMemcpyAsync(reinterpret_cast<CUdeviceptr>(to), from, bytes, stream);
}

/// Waits for what runs on the device, as the real one may.
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (is_forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  current.back()->synchronize();
  *module = new CUmod_st{current.back(), static_cast<const char*>(image), {}};
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

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  const CUstream meant = resolve(stream);
  if (meant == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *status = meant->capture ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  stream->capture = std::make_shared<Capture>();
  stream->capture->is_global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
  if (stream->capture->is_global) ++global_captures;
  stream->capture->origin = stream;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const auto capture = stream->capture;
  if (!capture || capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->is_global) --global_captures;
  bool is_joined = true;
  for (const auto& [fork, given] : capture->given) {
    fork->capture.reset();
    if (fork != stream && capture->joined[fork] < given) is_joined = false;
  }
  stream->capture.reset();
  if (!is_joined) {
    capture->users.clear();
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = new CUgraph_st{capture};
  ++capture->graphs;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec* launchable, CUgraph graph, unsigned long long /*flags*/) {
  *launchable = new CUgraphExec_st{{graph->captured}};
  ++graph->captured->graphs;
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  for (const auto& work : graph->captured->works) resolve(stream)->give(work);
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec graph) {
  for (void* const memory : graph->captured->memory) Memory::all().free(memory);
  graph->captured->release();
  delete graph;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  graph->captured->release();
  delete graph;
  return CUDA_SUCCESS;
}

}  // extern "C"
