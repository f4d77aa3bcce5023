// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/layout.h"

namespace ddprun::agent {

// Guesses from the exception or the last words: programs choose their words. Pure.

/// Whether a failure looks like the consequence of an event, or of a missing event, in another
/// rank: the words mention a timeout, or a lost peer or connection.
bool is_consequence(const rendezvous::Failure& failure);

/// Whether the words mention a peer that has ended, or a lost connection. A timeout does not count:
/// the missing rank may still run.
bool says_it_lost_a_peer(const rendezvous::Failure& failure);

}  // namespace ddprun::agent
