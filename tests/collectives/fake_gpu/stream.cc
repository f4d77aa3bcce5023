// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/fake_gpu/stream.h"

#include <utility>

void CUctx_st::synchronize() {
  for (int left = works; left > 0; left = works) works.wait(left);
}

CUstream_st::CUstream_st(CUcontext of) : context(of), thread_([this] { work_off(); }) {}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CUstream_st::give(fake_gpu::Work work) {
  if (capture) {
    capture->works.push_back(std::move(work));
    ++capture->given[this];
    return;
  }
  ++context->works;
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  changed_.notify_all();
}

CUresult CUstream_st::record(CUevent event) {
  event->capture = capture;
  if (capture) {
    event->recorder = this;
    event->place = capture->given[this];
    return CUDA_SUCCESS;
  }
  const auto state = event->state;
  unsigned number = 0;
  {
    const std::lock_guard lock(state->mutex);
    number = ++state->recorded;
  }
  give([state, number] {
    const std::lock_guard lock(state->mutex);
    state->reached = number;
    state->changed.notify_all();
  });
  return CUDA_SUCCESS;
}

CUresult CUstream_st::wait_for(CUevent event) {
  if (event->capture) {
    if (capture && capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    capture = event->capture;  // a fork, if it is none yet
    capture->given.try_emplace(this, 0);
    auto& joined = capture->joined[event->recorder];
    if (event->recorder != this && event->place > joined) joined = event->place;
    return CUDA_SUCCESS;
  }
  if (capture) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  const auto state = event->state;
  unsigned number = 0;
  {
    const std::lock_guard lock(state->mutex);
    number = state->recorded;
  }
  give([state, number] {
    std::unique_lock lock(state->mutex);
    state->changed.wait(lock, [&] { return state->reached >= number; });
  });
  return CUDA_SUCCESS;
}

void CUstream_st::synchronize() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return works_.empty() && !busy_; });
}

void CUstream_st::work_off() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !works_.empty(); });
    if (works_.empty()) return;
    {
      const fake_gpu::Work work = std::move(works_.front());
      works_.pop_front();
      busy_ = true;
      lock.unlock();
      work();
    }
    --context->works;
    context->works.notify_all();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}
