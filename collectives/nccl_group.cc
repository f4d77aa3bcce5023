// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl_group.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/nccl_libraries.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

struct Open {
  int depth = 0;
  std::vector<std::function<void()>> after;
};
thread_local Open open;  // NCCL's groups are the thread's, too

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

}  // namespace ddp::internal
