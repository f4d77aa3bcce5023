// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "rendezvous/layout.h"

namespace ddprun::agent::web {

/// An event of the job that this node knows.
struct HistoryEvent {
  double at = 0;  ///< seconds since its ddprun began
  /// "round", "failure", "change" (of nodes), "suspect", "hang", "warning", "progress" (a hang or
  /// the matter of a warning is over), "stop" or "end".
  std::string kind;
  std::string text;  ///< sentences, of one line or more
  int rank = -1;     ///< whose worker failed; -1: none
};

/// Why a round failed, in a word for a metric: "exit", "signal", "out_of_memory", "not_started",
/// "node_lost" or "hang".
std::string cause_of(const rendezvous::Failure& failure);

/// The job's history since this node takes part: the latest events, and counts of all of them.
/// Times are seconds since its ddprun began. Pure.
class History {
 public:
  /// The workers of a round run.
  void round_began(double at, const rendezvous::Layout& layout);

  /// The round is over, because of the failure in `sentence`.
  void failed(double at, const rendezvous::Failure& failure, std::string sentence);

  /// The round is over, because nodes have come or gone.
  void changed(double at, std::string sentence);

  /// `sentence` names the rank for which the others waited in the last round.
  void suspected(double at, std::string sentence);

  /// The master's lines: no rank makes progress, and for whom the ranks wait. If it is one line,
  /// some ranks make progress again.
  void stalled(double at, std::string lines);

  /// ddprun warns of something that does not end the round.
  void warned(double at, std::string sentence);

  /// The matter of the latest warning is over.
  void recovered(double at, std::string sentence);

  /// A signal stops the workers.
  void stopping(double at, std::string sentence);

  /// The job is over on this node; later warnings do not count. `state` says how, in a word.
  void ended(double at, const char* state, std::string sentence, bool well);

  /// The state of the job in words, by its latest event; lines.
  std::string verdict() const;

  /// JSON with "verdict", "state" (in a word), "well" (no problem), "seconds", and a list of
  /// "events".
  std::string json(double now) const;

  bool hangs() const { return hangs_; }
  const std::map<std::string, int>& failures() const { return failures_; }  ///< by cause_of()

  /// The time without a round since the first one began.
  double downtime(double now) const;

 private:
  void add(double at, const char* kind, std::string text);
  void round_ended(double at);

  std::deque<HistoryEvent> latest_;
  std::map<std::string, int> failures_;
  const char* state_ = "waiting";     ///< in a word
  std::string matter_;                ///< what is wrong; empty: all is well
  std::string running_;               ///< the running round; empty: none
  std::optional<double> down_since_;  ///< the end of the last round
  double downtime_ = 0;               ///< before that
  bool hangs_ = false;
  bool is_over_ = false;
};

}  // namespace ddprun::agent::web
