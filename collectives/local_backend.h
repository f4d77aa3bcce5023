// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backend.h"

namespace ddp::internal {

/// For a group of one rank, whatever the library: what goes in comes out.
std::unique_ptr<Backend> make_local_backend();

}  // namespace ddp::internal
