// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/nccl/group.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/backends/nccl/library.h"

namespace ddp::internal {
namespace {

struct PendingAbort {
  ncclComm_t handle;
  std::shared_ptr<void> owner;
};
thread_local std::vector<PendingAbort>* together = nullptr;  // null: not in abort_together()

struct OpenGroup {
  int depth = 0;
  std::vector<ncclComm_t> members;
  std::vector<PendingAbort> aborts;
  std::vector<std::function<void()>> after;
  std::optional<Error> failure;
};
thread_local OpenGroup open_group;

/// The members of the open groups of all threads, once for each group.
class GroupMembers {
 public:
  /// Never destroyed: a thread may wait while the process ends.
  static GroupMembers& of_process() {
    static auto* const members = new GroupMembers;
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

  void wait_until_none_has(const std::vector<PendingAbort>& aborts) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] {
      return std::ranges::none_of(aborts, [&](const PendingAbort& one) {
        return std::ranges::count(all_, one.handle) > 0;
      });
    });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ncclComm_t> all_;
};

/// Aborts in a group: NCCL then tells the kernels of all communicators to end before it frees any.
void abort_all(const std::vector<PendingAbort>& all) {
  if (all.empty()) return;
  GroupMembers::of_process().wait_until_none_has(all);
  nccl().ncclGroupStart();
  for (const PendingAbort& one : all) nccl().ncclCommAbort(one.handle);
  nccl().ncclGroupEnd();
}

void start_group() {
  if (nccl().ncclGroupStart() != ncclSuccess) {
    throw Error(ErrorKind::system, "ddp: ncclGroupStart failed");
  }
  ++open_group.depth;
}

/// Aborts first: the work of after() may wait for kernels that end only then.
std::optional<Error> end_group() {
  const ncclResult_t result = nccl().ncclGroupEnd();
  if (--open_group.depth > 0) return std::nullopt;
  OpenGroup ended = std::exchange(open_group, {});
  GroupMembers::of_process().remove(ended.members);
  abort_all(ended.aborts);
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
    end_group();  // the first error counts
    throw;
  }
  if (const auto error = end_group()) throw Error(*error);
}

bool NcclGroup::is_open() {
  return open_group.depth > 0;
}

void NcclGroup::add_member(ncclComm_t handle) {
  if (!is_open() || std::ranges::count(open_group.members, handle) > 0) return;
  open_group.members.push_back(handle);
  GroupMembers::of_process().add(handle);
}

void NcclGroup::fail(const Error& error) {
  if (is_open() && !open_group.failure) open_group.failure = error;
}

void NcclGroup::after(const std::function<void()>& work) {
  if (!is_open()) return work();
  open_group.after.push_back(work);
}

void NcclGroup::abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept {
  const PendingAbort one = {handle, std::move(owner)};
  if (together != nullptr) {
    together->push_back(one);
  } else if (is_open()) {
    open_group.aborts.push_back(one);
  } else {
    abort_all({one});
  }
}

void NcclGroup::abort_together(const std::function<void()>& work) {
  std::vector<PendingAbort> all;
  together = &all;
  work();
  together = nullptr;
  abort_all(all);
}

}  // namespace ddp::internal
