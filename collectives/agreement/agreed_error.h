// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "collectives/agreement/group_context.h"
#include "collectives/errors.h"
#include "ddp/error.h"

namespace ddp::internal {

/// The one failure that all ranks of a group report. The first rank that fails decides: its error
/// is set in the store, by compare-and-set, and is the group's from then on. A rank must not close
/// its connections before that: a peer that sees a connection end asks the store for the cause, and
/// would otherwise blame the rank that only reacted.
struct AgreedError {
  ErrorKind kind = ErrorKind::system;
  std::string sentence;  ///< begins with "rank N ", unless ddprun wrote it
  ErrorFacts facts = {};
};

/// Notifies the other ranks that this one makes no more calls of the group. Its connections end
/// only after that.
void say_goodbye(const GroupContext& context) noexcept;

/// Makes `mine` the group's agreed error unless there is one already. Returns the agreed error;
/// without a store, `mine`. Throws what the store throws.
AgreedError propose_error(const GroupContext& context, const AgreedError& mine);

/// Waits for the group's agreed error. Throws what the store throws: timed_out after `limit`.
AgreedError wait_for_agreed_error(Store& store, const std::string& prefix,
                                  std::chrono::milliseconds limit);

/// Returns the agreed error if there is one by now. Throws as ask_store() does.
std::optional<AgreedError> find_agreed_error(const GroupContext& context);

/// The error of a rank that cannot ask the store about a failure: `sentence`, and what the store
/// threw. Names rank 0 if rank 0 serves the store.
AgreedError without_store(const GroupContext& context, const std::string& sentence,
                          const Error& error);

/// Converts the agreed error for this rank to throw from the call `where`, which may be empty.
Error to_error(const GroupContext& context, const std::string& where, const AgreedError& agreed);

/// Proposes "rank N SENTENCE" and returns the agreed error for this rank to throw. If the store is
/// lost, returns this rank's own error. If the store does not answer for limit_of_abort(), ends the
/// process with that error. `where` is "in #12 barrier" or "while connecting".
Error agree_on(const GroupContext& context, const std::string& where, ErrorKind kind,
               const std::string& sentence, ErrorFacts facts = {});

/// agree_on() for a connection that ended: the peer has left or is lost; below, for a peer that has
/// left, with `more` about it; and for one that timed out.
Error agree_on_loss(const GroupContext& context, const std::string& where, int peer,
                    const std::string& reason);
Error agree_on_leave(const GroupContext& context, const std::string& where, int peer,
                     const std::string& more = "");
Error agree_on_timeout(const GroupContext& context, const std::string& where, int peer);

/// The agreed error for any exception that ended the call `where`: an Error is agreed already. To
/// be called in a catch block.
Error agree_on_exception(const GroupContext& context, const std::string& where);

/// An error of this rank alone: "ddp: rank N" and `text`, which begins with " " or ": ".
Error own_error(const GroupContext& context, ErrorKind kind, const std::string& text);

/// The error's text without "ddp: " in front.
std::string plain_text(const Error& error);

/// Runs `request` on the store while the ranks join. Throws what the store throws as this rank's
/// error: peer_lost if rank 0 served the store and is gone.
void ask_store(const GroupContext& context, const std::function<void(Store& store)>& request);

/// Optional callbacks while waiting.
struct WhileWaiting {
  /// Called every second; may throw.
  std::function<void()> check = nullptr;
  /// Called on rank 0 when all ranks are there. Returns what is wrong (text as of own_error()).
  std::function<std::optional<AgreedError>()> judge = nullptr;
  /// Called on the other ranks when rank 0 is there.
  std::function<void()> meet_rank_0 = nullptr;
};

/// Waits until every rank has set the group's key STEM/RANK. Rank 0 waits for all keys and then
/// notifies the others, so a rank's requests to the store do not grow with the group. Throws an
/// error of kind timed_out after the group's timeout, with the ranks that did not come. If rank 0
/// finds something wrong, every rank throws that.
void wait_for_all_ranks(const GroupContext& context, const std::string& stem,
                        const WhileWaiting& waiting = {});

/// Ends that wait, with `error`, on all ranks that rank 0 has not notified and never will. Throws
/// what the store throws. Thread: any.
void tell_instead_of_rank_0(const GroupContext& context, const std::string& stem,
                            const AgreedError& error);

}  // namespace ddp::internal
