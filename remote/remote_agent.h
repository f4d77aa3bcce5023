// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/secret.h"

// The side of an agent that another ddprun started on this host. It reports to that ddprun by
// marked lines on stderr (log::kMark): its own messages, and these two words.

namespace ddprun::remote {

/// The agent takes part in the job from now on.
inline constexpr std::string_view kReady = "ready";
/// The agent's exit code follows.
inline constexpr std::string_view kEnded = "ended ";

/// Whether this process is such an agent, by its words without argv[0].
bool is_remote_agent(std::span<const std::string> words);

/// The order that the agent follows.
struct Followed {
  std::vector<std::string> arguments;  ///< without argv[0]
  Fd control;                          ///< for launcher::guard
  Secret secret;                       ///< of the job, as text; empty: none was passed
};

/// Reads the order from stdin, which becomes /dev/null, and adopts its directory and environment.
/// Blocks. Errors: usage, protocol, system, timed_out.
Result<Followed> follow_order();

/// Reports kReady, or kEnded with `code`.
void say_ready();
void say_ended(int code);

}  // namespace ddprun::remote
