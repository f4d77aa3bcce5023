// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/fake_gpu/stream.h"

#include <utility>

void CUctx_st::synchronize() {
  for (int left = works; left > 0; left = works) works.wait(left);
}

void CUstream_st::begin(CUcontext of) {
  static std::atomic<unsigned long long> last_id = 0;
  id = ++last_id;
  context = of;
  queue_ = std::make_shared<Queue>();
  std::thread([queue = queue_, of] { queue->work_off(of); }).detach();
}

void CUstream_st::end() {
  const std::lock_guard lock(queue_->mutex);
  queue_->ends = true;
  queue_->changed.notify_all();
}

void CUstream_st::give(fake_gpu::Work work) {
  if (capture) {
    capture->works.push_back(std::move(work));
    ++capture->given[this];
    return;
  }
  ++context->works;
  const std::lock_guard lock(queue_->mutex);
  queue_->works.push_back(std::move(work));
  queue_->changed.notify_all();
}

CUresult CUstream_st::record(CUevent event) {
  event->capture = capture;
  if (capture) {
    event->recorder = this;
    event->place = capture->given[this];
    return CUDA_SUCCESS;
  }
  event->state = std::make_shared<fake_gpu::EventState>();
  give([state = event->state] { state->reach(); });
  return CUDA_SUCCESS;
}

CUresult CUstream_st::wait_for(CUevent event) {
  if (event->capture) {
    if (capture && capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    capture = event->capture;  // a fork, if there was no capture
    capture->given.try_emplace(this, 0);
    auto& joined = capture->joined[event->recorder];
    if (event->recorder != this && event->place > joined) joined = event->place;
    return CUDA_SUCCESS;
  }
  if (capture) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  if (event->state) give([state = event->state] { state->wait(); });
  return CUDA_SUCCESS;
}

void CUstream_st::synchronize() {
  Queue& queue = *queue_;
  std::unique_lock lock(queue.mutex);
  queue.changed.wait(lock, [&] { return queue.works.empty() && !queue.busy; });
}

void CUstream_st::Queue::work_off(CUcontext of) {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return ends || !works.empty(); });
    if (works.empty()) return;
    {
      const fake_gpu::Work work = std::move(works.front());
      works.pop_front();
      busy = true;
      lock.unlock();
      work();
    }
    --of->works;
    of->works.notify_all();
    lock.lock();
    busy = false;
    changed.notify_all();
  }
}
