// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/backend.h"
#include "collectives/meeting.h"

namespace ddp::internal {

/// Connects all ranks through Gloo's TCP transport and returns when every rank is connected.
std::unique_ptr<Backend> make_gloo_backend(Meeting meeting);

}  // namespace ddp::internal
