// SPDX-License-Identifier: Apache-2.0
#include "base/job_threads.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <system_error>
#include <utility>

#include "base/signal_masked_thread.h"

namespace ddprun {

/// Shared with the threads, which may outlive the JobThreads.
struct JobThreads::State {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> waiting;
  std::size_t threads = 0;
  std::size_t busy = 0;
  std::size_t ended = 0;          // jobs
  std::size_t ended_earlier = 0;  // at the last relieve()
  bool left = false;              // the JobThreads is destroyed

  void work() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return left || !waiting.empty(); });
      if (waiting.empty()) return;
      run_next(lock);
    }
  }

 private:
  void run_next(std::unique_lock<std::mutex>& lock) {
    Job job = std::move(waiting.front());
    waiting.pop_front();
    ++busy;
    lock.unlock();
    job();
    job = nullptr;  // frees what it owns before it counts as ended
    lock.lock();
    --busy;
    ++ended;
    if (busy == 0) changed.notify_all();
  }
};

namespace {

/// False if the system allows no further thread.
template <class State>
bool start_thread(const std::shared_ptr<State>& state) {
  try {
    signal_masked_thread([state] { state->work(); }).detach();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

}  // namespace

JobThreads& JobThreads::operator=(JobThreads&& other) noexcept {
  leave();
  state_ = std::move(other.state_);
  return *this;
}

JobThreads::~JobThreads() {
  leave();
}

void JobThreads::leave() {
  if (!state_) return;
  std::deque<Job> dropped;  // their destructors run without the lock
  const std::lock_guard lock(state_->mutex);
  state_->left = true;
  dropped.swap(state_->waiting);
  state_->changed.notify_all();
}

void JobThreads::run(Job job) {
  if (!state_) state_ = std::make_shared<State>();
  std::unique_lock lock(state_->mutex);
  if (state_->threads == 0 && start_thread(state_)) ++state_->threads;
  if (state_->threads == 0) {
    lock.unlock();
    return job();
  }
  state_->waiting.push_back(std::move(job));
  state_->changed.notify_one();
}

bool JobThreads::is_behind() const {
  if (!state_) return false;
  const std::lock_guard lock(state_->mutex);
  return state_->waiting.size() > state_->threads - state_->busy;
}

void JobThreads::relieve() {
  if (!state_) return;
  const std::lock_guard lock(state_->mutex);
  const bool stuck = std::exchange(state_->ended_earlier, state_->ended) == state_->ended;
  if (!stuck || state_->busy < state_->threads) return;
  for (std::size_t more = std::min(state_->threads, state_->waiting.size()); more > 0; --more) {
    if (!start_thread(state_)) return;
    ++state_->threads;
  }
}

bool JobThreads::wait_until_idle(std::chrono::steady_clock::time_point deadline) {
  if (!state_) return true;
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_until(
      lock, deadline, [this] { return state_->busy == 0 && state_->waiting.empty(); });
}

}  // namespace ddprun
