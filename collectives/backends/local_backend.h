// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "collectives/backends/backend.h"

namespace ddp::internal {

/// For a group of one rank, whatever the library: what goes in comes out. `name` is the library's.
std::unique_ptr<Backend> make_local_backend(std::string name);

}  // namespace ddp::internal
