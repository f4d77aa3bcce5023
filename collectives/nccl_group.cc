// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl_group.h"

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl_libraries.h"
#include "collectives/quiet_thread.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

struct Open {
  int depth = 0;
  std::vector<std::function<void()>> after;
};
thread_local Open open;  // NCCL's groups are the thread's, too

struct Doomed {
  ncclComm_t handle;
  std::shared_ptr<void> owner;
};
thread_local std::vector<Doomed>* doomed = nullptr;  // null: outside of abort_together()

/// From 2.22 on NCCL takes ncclCommAbort in a group: it raises the flags of all communicators,
/// which end their kernels, before it frees what any of them has.
bool groups_aborts() {
  int version = 0;
  return nccl().ncclGetVersion(&version) == ncclSuccess && version >= NCCL_VERSION(2, 22, 0);
}

void end_all(const std::vector<Doomed>& all) {
  if (groups_aborts()) {
    nccl().ncclGroupStart();
    for (const Doomed& one : all) nccl().ncclCommAbort(one.handle);
    nccl().ncclGroupEnd();
    return;
  }
  std::vector<std::thread> threads;
  for (const Doomed& one : all) {
    threads.push_back(quiet_thread([handle = one.handle] { nccl().ncclCommAbort(handle); }));
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

void NcclGroup::start() {
  if (nccl().ncclGroupStart() != ncclSuccess) {
    throw Error(ErrorKind::system, "ddp: ncclGroupStart failed");
  }
  ++open.depth;
}

void NcclGroup::end() {
  if (--open.depth > 0) {
    nccl().ncclGroupEnd();
    return;
  }
  const ncclResult_t result = nccl().ncclGroupEnd();
  std::optional<Error> error;
  if (result != ncclSuccess && result != ncclInProgress) {
    error.emplace(ErrorKind::system,
                  std::string("ddp: ncclGroupEnd: ") + nccl().ncclGetErrorString(result));
  }
  for (const auto& work : std::exchange(open.after, {})) {
    try {
      work();
    } catch (const Error& thrown) {
      if (!error) error = thrown;
    }
  }
  if (error) throw Error(*error);
}

bool NcclGroup::is_open() {
  return open.depth > 0;
}

void NcclGroup::after(const std::function<void()>& work) {
  if (!is_open()) return work();
  open.after.push_back(work);
}

void NcclGroup::abort(ncclComm_t handle, std::shared_ptr<void> owner) noexcept {
  if (doomed == nullptr) {
    nccl().ncclCommAbort(handle);
  } else {
    doomed->push_back({handle, std::move(owner)});
  }
}

void NcclGroup::abort_together(const std::function<void()>& work) {
  std::vector<Doomed> all;
  doomed = &all;
  work();
  doomed = nullptr;
  if (!all.empty()) end_all(all);
}

}  // namespace ddp::internal
