// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends.h"

#include <utility>

#include "collectives/gloo_backend.h"
#include "collectives/local_backend.h"
#include "collectives/mpi_backend.h"
#include "ddp/error.h"

namespace ddp::internal {

std::string choose_backend(const std::string& wanted) {
  if (wanted.empty()) return "gloo";
  if (wanted == "gloo" || wanted == "mpi") return wanted;
  throw Error(ErrorKind::usage, "ddp: backend " + wanted + " is neither gloo nor mpi");
}

std::unique_ptr<Backend> make_backend(const std::string& chosen, Meeting meeting) {
  if (meeting.size == 1) return make_local_backend(chosen);
  if (chosen == "mpi") return make_mpi_backend(std::move(meeting));
  return make_gloo_backend(std::move(meeting));
}

}  // namespace ddp::internal
