// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "store/client.h"

namespace ddprun::doctor {

/// Returns the value of each key, in their order, once all are there or `limit` is over; nullopt
/// for missing ones. Errors: the store is lost.
Result<std::vector<std::optional<std::string>>> collect(store::Client& store,
                                                        const std::vector<std::string>& keys,
                                                        std::chrono::milliseconds limit);

}  // namespace ddprun::doctor
