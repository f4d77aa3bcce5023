// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

// For a starter that passes on neither input nor output, as PBS's pbsdsh: a process of this command
// between it and a Connection. It starts the agent by that starter, which connects back once for
// each of its standard streams; this process passes bytes between them and its own streams. Each
// side proves that it knows the cookie that the scheduler gives to the processes of a job,
// PBS_JOBCOOKIE. What follows is not encrypted.

namespace ddprun::remote {

/// The first argument of such a process; the name of this host follows, and the starter's command,
/// whose last word is kAgentFlag.
inline constexpr std::string_view kRelayFlag = "--remote_relay";

/// By its words without argv[0].
bool is_relay(std::span<const std::string> words);

/// Relays until the agent's output has ended. Returns the exit code of the starter, or 1, if it
/// ended without an agent that called.
int run_relay(std::span<const std::string> words);

/// In the agent: stdin, stdout and stderr become connections to the relay at `where`, as it gave it
/// to the starter. Blocks. Errors: usage, unreachable, protocol.
Result<> call_back(std::string_view where);

}  // namespace ddprun::remote
