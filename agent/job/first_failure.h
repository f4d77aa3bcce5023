// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "rendezvous/layout.h"

namespace ddprun::agent {

/// DECIDES which of this node's failures of a round is reported as the first. A worker that fails
/// may close its connections some time before its process ends, as when it unwinds the stack or
/// ends an interpreter; another worker that loses its connection by that may end first. So a
/// failure that speaks of a lost peer waits for one that does not, here or on another node. Pure:
/// no clock.
class FirstFailure {
 public:
  /// A worker has failed: call it in the order of their ends. Returns its number for `examined`.
  std::size_t ended();

  /// What is known of that failure. Returns the one to report now: the first to end of those that
  /// do not speak of a lost peer, once none before it can be one. At most once between two `clear`.
  std::optional<rendezvous::Failure> examined(std::size_t number, rendezvous::Failure failure);

  /// Whether all known failures speak of a lost peer, and none has been reported.
  bool waits_for_cause() const;

  /// There is nothing to wait for any more: returns the first that ended, if waits_for_cause().
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
