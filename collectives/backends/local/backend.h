// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// Makes the backend of a group of one rank: every call is a copy. `name` is the backend asked for.
std::unique_ptr<Backend> make_local_backend(std::string name);

}  // namespace ddp::internal
