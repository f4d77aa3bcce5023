// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/guardian/final_message.h"
#include "rendezvous/secret/secure_channel.h"

namespace ddprun::agent {

/// The guardian needs this to send gone_message: the agent's session, and the job's key if it
/// has a secret (`security`: nullptr: it has none).
std::string gone_subject(const std::string& session, const rendezvous::Security* security);

/// The guardian's message to the master when the agent has ended and none of its processes runs any
/// more: a greeting and message::Gone, encrypted if the job has a secret.
launcher::FinalMessage::Talk gone_message(const std::string& subject, const std::string& how);

}  // namespace ddprun::agent
