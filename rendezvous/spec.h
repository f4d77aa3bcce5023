// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace ddprun::rendezvous {

/// Whether a failed round is tried again, and how soon.
struct RestartSpec {
  int max_restarts = 0;  ///< for the whole job; regrouping is free
  /// max_restarts are allowed within any span of this length; 0: in all.
  std::chrono::milliseconds restart_window{0};
  /// The pause before the first restart; it doubles with each restart, to 5 minutes.
  std::chrono::milliseconds restart_backoff{0};
  /// A round that fails sooner is not restarted; 0: any is.
  std::chrono::milliseconds min_uptime{0};
};

/// The settings of every round of a job.
struct RoundSpec : RestartSpec {
  /// A round in which no rank makes progress for so long has failed; 0: it is only reported.
  std::chrono::milliseconds hang_timeout{0};
  int min_nodes = 1;  ///< 1 <= min_nodes <= max_nodes
  int max_nodes = 1;
  std::chrono::milliseconds join_timeout{600'000};  ///< below min_nodes for so long: the job ends
  std::chrono::milliseconds last_call{30'000};      ///< the wait for more, once min_nodes are here
};

/// When a silent node is lost.
struct LeaseSpec {
  std::chrono::milliseconds heartbeat{2'000};  ///< between two heartbeats of an agent
  std::chrono::milliseconds lease{10'000};  ///< the silence after which a node is lost; > heartbeat
};

}  // namespace ddprun::rendezvous
