// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/exit_status.h"

namespace ddprun::agent {

/// What the guardian sends to the master when the agent with that session has ended and nothing of
/// it runs any more: a greeting and message::Gone. Pure.
std::string gone_message(const std::string& session, const launcher::ExitStatus& agent);

}  // namespace ddprun::agent
