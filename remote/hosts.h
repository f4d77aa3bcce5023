// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The hosts of a job that one command starts, as users write them. Pure. Errors: usage.

namespace ddprun::remote {

/// A host under the name that ssh gets, which may contain a user: "me@gpu-07".
struct HostName {
  std::string name;
  std::optional<int> slots;  ///< workers there; nullopt: not given
};

using HostNames = std::vector<HostName>;

/// "a,b:4,user@c,[fd09::1]:2". A host that is named more than once counts once, at its first place.
/// Its slots are added, as Open MPI and MPICH do; a name without a number adds one.
Result<HostNames> parse_host_list(std::string_view text);

/// A file with one host per line, in the format of Open MPI ("host slots=4 max_slots=8") or MPICH
/// ("host:4"). Empty lines, and text after a #, are ignored.
Result<HostNames> parse_host_file(std::string_view text);

/// The name without the user.
std::string_view without_user(std::string_view name);

/// Whether the name means the host itself on every host: "localhost", "127.0.0.1", "::1".
bool is_loopback(std::string_view name);

}  // namespace ddprun::remote
