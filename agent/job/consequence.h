// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/layout.h"

namespace ddprun::agent {

// Guesses by the exception or the last words: programs choose their words. Pure.

/// Whether a failure looks like the consequence of what happened, or did not happen, in another
/// rank: the words speak of a timeout, or of a peer or connection that was lost.
bool is_consequence(const rendezvous::Failure& failure);

/// Whether the words speak of a peer that has ended, or of its connection. A timeout does not
/// count: the rank that it waited for need not have ended.
bool says_it_lost_a_peer(const rendezvous::Failure& failure);

}  // namespace ddprun::agent
