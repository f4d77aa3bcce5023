// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "base/secret.h"

// The side of an agent that another ddprun started on this host. What it says to that one are
// marked lines on stderr (log::kMark): its own messages, and these two words.

namespace ddprun::remote {

/// It takes part in the job from now on.
inline constexpr std::string_view kReady = "ready";
/// Followed by its exit code.
inline constexpr std::string_view kEnded = "ended ";

/// Whether this process is such an agent, by its words without argv[0].
bool is_remote_agent(std::span<const std::string> words);

/// The order.
struct Followed {
  std::vector<std::string> arguments;  ///< without argv[0]
  Fd control;                          ///< for launcher::guard
  Secret secret;                       ///< of the job, as text; empty: none was handed over
};

/// Reads the order from stdin, which becomes /dev/null, and takes on its directory and environment.
/// Blocks. Errors: usage, protocol, system.
Result<Followed> follow_order();

/// Says kReady, or kEnded with `code`.
void say_ready();
void say_ended(int code);

}  // namespace ddprun::remote
