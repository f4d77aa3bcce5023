// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "collectives/backends/group_context.h"
#include "ddp/error.h"

namespace ddp::internal {

/// The one failure that all ranks of a group report. The first rank that fails decides: its error
/// is set in the store, by compare-and-set, and is the group's from then on. A rank must not close
/// its connections before that: a peer that sees a connection end asks the store for the cause, and
/// would otherwise blame the rank that only reacted.
struct AgreedError {
  ErrorKind kind = ErrorKind::system;
  std::string sentence;  ///< begins with "rank N ", unless ddprun wrote it
};

/// Makes `mine` the group's agreed error unless there is one already; returns the agreed one.
/// Without a store it is `mine`. Throws what the store throws.
AgreedError propose_error(const GroupContext& context, const AgreedError& mine);

/// Waits for the group's agreed error. Throws what the store throws: after `limit`, timed_out.
AgreedError wait_for_agreed_error(Store& store, const std::string& prefix,
                                  std::chrono::milliseconds limit);

/// The agreed error if there is one by now. Throws as ask_store() does.
std::optional<AgreedError> find_agreed_error(const GroupContext& context);

/// The error of a rank that cannot ask the store about a failure: `sentence`, and what the store
/// threw. Names rank 0 if that serves the store.
AgreedError without_store(const GroupContext& context, const std::string& sentence,
                          const Error& error);

/// The agreed error as this rank throws it from the call `where`, which may be empty.
Error to_error(const GroupContext& context, const std::string& where, const AgreedError& agreed);

/// Proposes "rank N SENTENCE" and returns the agreed error for this rank to throw. Falls back to
/// its own if the store is lost. Ends the process, with that, if the store does not answer for
/// limit_of_abort(). `where` is "in #12 barrier" or "while connecting".
Error agree_on(GroupContext& context, const std::string& where, ErrorKind kind,
               const std::string& sentence);

/// agree_on() for a connection that ended, and for a peer that timed out.
Error agree_on_loss(GroupContext& context, const std::string& where, int peer,
                    const std::string& reason);
Error agree_on_timeout(GroupContext& context, const std::string& where, int peer);

/// An error of this rank alone: "ddp: rank N" and `text`, which begins with " " or ": ".
Error own_error(const GroupContext& context, ErrorKind kind, const std::string& text);

/// The error's text without "ddp: " in front.
std::string plain_text(const Error& error);

/// Runs `request` on the store while the ranks join. Throws what the store throws as this rank's
/// error; peer_lost if rank 0 served the store and is gone.
void ask_store(const GroupContext& context, const std::function<void(Store& store)>& request);

/// What a rank does while it waits for the others, as far as it is set.
struct WhileWaiting {
  /// Is called every second, and may throw.
  std::function<void()> check = nullptr;
  /// On rank 0, when all ranks are there: what is wrong, with a text as of own_error().
  std::function<std::optional<AgreedError>()> judge = nullptr;
  /// On the others, when rank 0 is there.
  std::function<void()> meet_rank_0 = nullptr;
};

/// Waits until every rank has set the group's key STEM/RANK: rank 0 for all of them, and tells the
/// others, so that what a rank asks of the store does not grow with the group. Error of kind
/// timed_out after the group's timeout, with the ranks that did not. What rank 0 finds wrong every
/// rank throws.
void wait_for_all_ranks(const GroupContext& context, const std::string& stem,
                        const WhileWaiting& waiting = {});

/// Ends that on all ranks that rank 0 has told nothing yet, and never will. Throws what the store
/// throws. Thread: any.
void tell_instead_of_rank_0(const GroupContext& context, const std::string& stem,
                            const AgreedError& error);

}  // namespace ddp::internal
