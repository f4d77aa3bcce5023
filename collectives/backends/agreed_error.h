// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "collectives/backends/group_context.h"
#include "ddp/error.h"

namespace ddp::internal {

/// What a rank says that fails. The first rank to fail decides for all: its sentence becomes the
/// group's agreed error, kept in the store. So a rank may break its connections only afterwards:
/// whoever sees them break finds the agreed error.

/// As the store has it.
struct AgreedError {
  ErrorKind kind = ErrorKind::system;
  std::string sentence;  ///< begins with "rank N ", or what ddprun says
};

/// The group's agreed error, which `mine` becomes if there was none, or no store to keep it in.
/// Throws what the store throws.
AgreedError decide(const GroupContext& context, const AgreedError& mine);

/// The group's agreed error, once there is one. Error of kind timed_out after `limit`.
AgreedError wait_for_agreed_error(Store& store, const std::string& prefix,
                                  std::chrono::milliseconds limit);

/// As this rank throws it, which stops `where`; that may be empty.
Error told_by(const GroupContext& context, const std::string& where, const AgreedError& agreed);

/// Decides and tells. `sentence` begins after "rank N "; `where` is "in #12 barrier" or "while
/// connecting".
Error agree_on(GroupContext& context, const std::string& where, ErrorKind kind,
               const std::string& sentence);

/// The same for a rank whose connection ended, and for one that was waited for too long.
Error agree_on_loss(GroupContext& context, const std::string& where, int partner,
                    const std::string& reason);
Error agree_on_timeout(GroupContext& context, const std::string& where, int partner);

/// Asks the store while the ranks join, and throws what it throws as this rank's.
void ask_store(const GroupContext& context, const std::function<void(Store& store)>& ask);

/// Returns when every rank has set the group's key STEM/RANK. Error of kind timed_out names those
/// that did not within the group's timeout.
void wait_for_everyone(const GroupContext& context, const std::string& stem);

}  // namespace ddp::internal
