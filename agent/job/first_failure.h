// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "rendezvous/layout.h"

namespace ddprun::agent {

// Guesses from the exception or the last words: programs choose their words.

/// Whether a failure looks like the consequence of an event, or of a missing event, in another
/// rank: the words mention a timeout, or a lost peer or connection.
bool is_consequence(const rendezvous::Failure& failure);

/// Whether the words mention a peer that has ended, or a lost connection. A timeout does not count:
/// the missing rank may still run.
bool says_it_lost_a_peer(const rendezvous::Failure& failure);

/// DECIDES which of this node's failures of a round is reported as the first. A worker that fails
/// may close its connections some time before its process ends, for example while it unwinds the
/// stack. Another worker that loses its connection by this may end first. So a failure whose words
/// mention a lost peer waits for another failure, here or on another node. Pure: no clock.
class FirstFailure {
 public:
  /// Takes note of a failed worker, in the order of their ends. Returns its number for `examined`.
  std::size_t ended();

  /// Takes that worker's failure. Returns the failure to report now, at most one between two
  /// `clear`: the first to end that mentions no lost peer, once all earlier ones are examined.
  std::optional<rendezvous::Failure> examined(std::size_t number, rendezvous::Failure failure);

  /// Whether all known failures speak of a lost peer, and none has been reported.
  bool waits_for_cause() const;

  /// Stops waiting: returns the first failure if waits_for_cause().
  std::optional<rendezvous::Failure> give_up();

  /// Another round begins.
  void clear();

 private:
  struct Candidate {
    std::optional<rendezvous::Failure> failure;  ///< nullopt: not examined yet
    bool lost_a_peer = false;
  };

  std::vector<Candidate> candidates_;  ///< in the order of their ends
  bool reported_ = false;
};

}  // namespace ddprun::agent
