// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends.h"

#include <utility>

#include "collectives/gloo_backend.h"
#include "collectives/local_backend.h"
#include "collectives/mpi_backend.h"
#include "collectives/nccl_backend.h"
#include "ddp/error.h"

namespace ddp::internal {

std::string choose_backend(const std::string& wanted) {
  if (wanted.empty()) return can_use_nccl() ? "nccl" : "gloo";
  if (wanted == "nccl") require_nccl();
  if (wanted == "gloo" || wanted == "mpi" || wanted == "nccl") return wanted;
  throw Error(ErrorKind::usage, "ddp: backend " + wanted + " is none of gloo, mpi and nccl");
}

std::unique_ptr<Backend> make_backend(const std::string& chosen, Meeting meeting) {
  if (chosen == "nccl") {
    // Gloo beside it, at once: so the group is not begun before every rank has come.
    auto host = make_backend("gloo", meeting);
    return make_nccl_backend(std::move(meeting), std::move(host));
  }
  if (meeting.size == 1) return make_local_backend(chosen);
  if (chosen == "mpi") return make_mpi_backend(std::move(meeting));
  return make_gloo_backend(std::move(meeting));
}

}  // namespace ddp::internal
