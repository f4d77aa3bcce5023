// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cuda.h>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace fake_gpu {

using Work = std::function<void()>;

/// One record of an event: whether its stream has reached it.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;

  void reach() {
    const std::lock_guard lock(mutex);
    reached = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return reached; });
  }
};

/// The contents of a graph: the work in the order in which it was given, which no fork contradicts;
/// how much of it each stream has; and how much of that another stream waited for.
struct Capture {
  std::vector<Work> works;
  std::vector<void*> memory;                 // of cuMemAllocAsync, while the graph exists
  std::vector<std::shared_ptr<void>> users;  // those that wait for the end of its last graph
  std::atomic<int> graphs = 0;
  bool is_global = false;
  CUstream origin = nullptr;
  std::map<CUstream, std::size_t> given;
  std::map<CUstream, std::size_t> joined;

  /// A graph of this capture is destroyed.
  void release() {
    if (--graphs == 0) users.clear();
  }
};

}  // namespace fake_gpu

struct CUctx_st {
  int device = 0;
  CUstream usual = nullptr;    // the null stream
  std::atomic<int> works = 0;  // given to streams, but not done

  /// Waits until all streams have done their work.
  void synchronize();
};

struct CUgraph_st {
  std::shared_ptr<fake_gpu::Capture> captured;
};

struct CUgraphExec_st : CUgraph_st {};

struct CUevent_st {
  CUcontext context = nullptr;
  std::shared_ptr<fake_gpu::EventState> state;  // null: not recorded
  // The record before, if it was captured.
  std::shared_ptr<fake_gpu::Capture> capture;
  CUstream recorder = nullptr;
  std::size_t place = 0;
};

/// Does its work in order, in a thread of its own. So work that no event orders happens in any
/// order.
struct CUstream_st {
 public:
  explicit CUstream_st(CUcontext of) { begin(of); }
  CUstream_st(const CUstream_st&) = delete;
  CUstream_st& operator=(const CUstream_st&) = delete;
  ~CUstream_st() = delete;

  void begin(CUcontext of);

  /// Another stream may begin at this place while the work continues.
  void end();

  /// Gives work: done now or, if it is captured, whenever the graph is launched.
  void give(fake_gpu::Work work);
  CUresult record(CUevent event);
  CUresult wait_for(CUevent event);
  void synchronize();

  CUcontext context = nullptr;
  std::shared_ptr<fake_gpu::Capture> capture;
  unsigned long long id = 0;  // unique

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<fake_gpu::Work> works;
    bool busy = false;
    bool ends = false;

    void work_off(CUcontext of);
  };

  std::shared_ptr<Queue> queue_;
};
