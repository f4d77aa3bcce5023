// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/group.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/backends/nccl/library.h"
#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

struct Doomed {
  ncclComm_t handle;
  std::shared_ptr<void> owner;
};
thread_local std::vector<Doomed>* doomed = nullptr;  // null: outside of abort_together()

struct Open {
  int depth = 0;
  std::vector<ncclComm_t> members;
  std::vector<Doomed> doomed;
  std::vector<std::function<void()>> after;
  std::optional<Error> failure;
};
thread_local Open open;  // NCCL's groups are the thread's, too

/// The members of open groups, of all threads: once for each group.
class Members {
 public:
  /// Never destroyed: a thread may wait while the process ends.
  static Members& of_process() {
    static auto* const members = new Members;
    return *members;
  }

  void add(ncclComm_t handle) {
    const std::lock_guard lock(mutex_);
    all_.push_back(handle);
  }

  void remove(const std::vector<ncclComm_t>& handles) {
    const std::lock_guard lock(mutex_);
    for (ncclComm_t handle : handles) all_.erase(std::ranges::find(all_, handle));
    changed_.notify_all();
  }

  void wait_for_the_end_of(const std::vector<Doomed>& some) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::ranges::none_of(
          some, [&](const Doomed& one) { return std::ranges::count(all_, one.handle) > 0; });
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ncclComm_t> all_;
};

/// From 2.22 on NCCL takes ncclCommAbort in a group: it raises the flags of all communicators,
/// which end their kernels, before it frees what any of them has.
bool groups_aborts() {
  int version = 0;
  return nccl().ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 22, 0);
}

void end_all(const std::vector<Doomed>& all) {
  if (all.empty()) return;
  Members::of_process().wait_for_the_end_of(all);
  if (groups_aborts()) {
    nccl().ncclGroupStart();
    for (const Doomed& one : all) nccl().ncclCommAbort(one.handle);
    nccl().ncclGroupEnd();
    return;
  }
  std::vector<std::thread> threads;
  for (const Doomed& one : all) {
    threads.push_back(
        signal_masked_thread([handle = one.handle] { nccl().ncclCommAbort(handle); }));
  }
  for (std::thread& thread : threads) thread.join();
}

void start_group() {
  if (nccl().ncclGroupStart() != ncclSuccess) {
    throw Error(ErrorKind::system, "ddp: ncclGroupStart failed");
  }
  ++open.depth;
}

/// Calls on the device go on, or end, before what comes after them is done.
std::optional<Error> end() {
  const ncclResult_t result = nccl().ncclGroupEnd();
  if (--open.depth > 0) return std::nullopt;
  Open ended = std::exchange(open, {});
  Members::of_process().remove(ended.members);
  end_all(ended.doomed);
  for (const auto& work : ended.after) {
    try {
      work();
    } catch (const Error& thrown) {
      if (!ended.failure) ended.failure = thrown;
    }
  }
  if (!ended.failure && result != ncclSuccess && result != ncclInProgress) {
    ended.failure = Error(ErrorKind::system, "ddp: ncclGroupEnd: " + describe(result));
  }
  return ended.failure;
}

}  // namespace

void NcclGroup::run(const std::function<void()>& calls) {
  start_group();
  try {
    calls();
  } catch (...) {
    end();  // what was thrown first says more
    throw;
  }
  if (const auto error = end()) throw Error(*error);
}

bool NcclGroup::is_open() {
  return open.depth > 0;
}

void NcclGroup::enlist(ncclComm_t handle) {
  if (!is_open() || std::ranges::count(open.members, handle) > 0) return;
  open.members.push_back(handle);
  Members::of_process().add(handle);
}

void NcclGroup::fail(const Error& error) {
  if (is_open() && !open.failure) open.failure = error;
}

void NcclGroup::after(const std::function<void()>& work) {
  if (!is_open()) return work();
  open.after.push_back(work);
}

void NcclGroup::abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept {
  const Doomed one = {handle, std::move(owner)};
  if (doomed != nullptr) {
    doomed->push_back(one);
  } else if (is_open()) {
    open.doomed.push_back(one);
  } else {
    end_all({one});
  }
}

void NcclGroup::abort_together(const std::function<void()>& work) {
  std::vector<Doomed> all;
  doomed = &all;
  work();
  doomed = nullptr;
  end_all(all);
}

}  // namespace ddp::internal
