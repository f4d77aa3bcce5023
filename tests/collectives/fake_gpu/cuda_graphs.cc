// SPDX-License-Identifier: Apache-2.0
// Captures of streams, and graphs, of the tests' driver.

#include <atomic>
#include <memory>
#include <utility>

#include "tests/collectives/fake_gpu/driver.h"

using namespace fake_gpu;

namespace {

/// Captures in the global mode. Until they end, no thread may do certain things in that mode.
std::atomic<int> global_captures = 0;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

}  // namespace

bool fake_gpu::is_forbidden() {
  return global_captures > 0 && capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

extern "C" {

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
