// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/agreement/agreed_error.h"
#include "collectives/agreement/group_context.h"

namespace ddp::internal {

/// Publishes that this rank joins: "OWN PROCESS BACKEND/VERSION"; OWN is the backend's text. Throws
/// ddp::Error.
void publish_joined(const GroupContext& context, const std::string& own);

/// Reads the lines that these ranks published, in their order. Throws ddp::Error.
std::vector<std::string> joined_lines(const GroupContext& context, const std::vector<int>& ranks);

/// Checks that ranks with these lines, by rank, have the same backend and version of this library.
/// Returns the error for all of them if not.
std::optional<AgreedError> judge_joined(const std::vector<std::string>& lines);

}  // namespace ddp::internal
