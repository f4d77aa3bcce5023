// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "collectives/backends/backend.h"
#include "collectives/backends/group_context.h"

namespace ddp::internal {

/// The backend that Options::backend names; which one, where it names none. Throws ddp::Error of
/// kind usage for a name that is none.
std::string choose_backend(const std::string& wanted);

/// Connects all ranks, of which there may be one, through the backend that was chosen.
std::unique_ptr<Backend> make_backend(const std::string& chosen, GroupContext context);

}  // namespace ddp::internal
