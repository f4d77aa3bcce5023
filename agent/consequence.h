// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rendezvous/layout.h"

namespace ddprun::agent {

/// Whether a failure looks like the consequence of what happened, or did not happen, in another
/// rank: the exception or the last words speak of a time-out, or of a peer or connection that was
/// lost. A guess: programs choose their words. Pure.
bool is_consequence(const rendezvous::Failure& failure);

}  // namespace ddprun::agent
