// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "collectives/agreement/group_context.h"
#include "collectives/call/call.h"

namespace ddp::internal {

/// The key of a rank's status, which the others read when a call fails. The status completes the
/// sentence "rank 3 is ...": "at #12 barrier".
inline std::string status_key(const GroupContext& context, int rank) {
  return context.prefix + "statuses/" + std::to_string(rank);
}

/// The key of the line that a rank publishes when it joins: see joined.h.
inline constexpr const char* kJoined = "joined";
inline std::string joined_key(const GroupContext& context, int rank) {
  return context.prefix + kJoined + "/" + std::to_string(rank);
}

/// The key that a rank sets when it leaves the group, before its connections end.
inline std::string left_key(const GroupContext& context, int rank) {
  return context.prefix + "left/" + std::to_string(rank);
}

inline std::string status_at(const Call& call) {
  return "at " + describe(call);
}

/// The status of a rank that has none or cannot report it.
inline constexpr const char* kNotAnswering = "not answering";

}  // namespace ddp::internal
