// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends.h"

#include <utility>

#include "collectives/gloo_backend.h"
#include "collectives/local_backend.h"
#include "ddp/error.h"

namespace ddp::internal {

std::string choose_backend(const std::string& wanted) {
  if (wanted.empty() || wanted == "gloo") return "gloo";
  throw Error(ErrorKind::usage, "ddp: backend " + wanted + " is not gloo");
}

std::unique_ptr<Backend> make_backend(const std::string& chosen, Meeting meeting) {
  if (meeting.size == 1) return make_local_backend(chosen);
  return make_gloo_backend(std::move(meeting));
}

}  // namespace ddp::internal
