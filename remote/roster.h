// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ddprun::remote {

/// The state of a job's agents: to be started, running or ended. Decides when the others have to be
/// stopped, and the exit code of all. Pure.
///
// clang-format off
///   an agent                        with `least` hosts left  with fewer
///   ends before it took part        the others continue      stop the others: 125
///   is lost: its connection ended   the others continue      stop the others: 125
///   ends with an error              the others continue      stop those that do not end soon
///   ends with 0: the job succeeded  the others end, too      the same
// clang-format on
class Roster {
 public:
  /// How many agents start at the same time.
  static constexpr size_t kAtOnce = 64;
  static constexpr int kOwnFailure = 125;
  static constexpr int kSpare = 1;

  /// `least`: the job cannot continue with fewer hosts. `has_spares`: it needs fewer than there
  /// are. If the job has failed, agents that never had a place end with kSpare.
  Roster(size_t hosts, size_t least, bool has_spares = false)
      : states_(hosts), least_(least), left_(hosts), has_spares_(has_spares) {}

  /// The hosts to start now; they count as starting from now on.
  std::vector<size_t> start_more();

  /// The agent takes part.
  void is_ready(size_t host);

  /// All are stopped, and no further agent is started. `code` is the exit code of all if no agent
  /// that took part has another.
  void stop(int code = kOwnFailure);

  enum class Stop { none, soon, now };

  /// The decision about the others.
  struct Verdict {
    enum class What { failed_to_start, lost, ended } what = What::ended;
    Stop stop = Stop::none;
  };

  /// The agent has ended. `code`: the exit code that it reported; nullopt: it reported none.
  Verdict has_ended(size_t host, std::optional<int> code);

  bool is_starting(size_t host) const { return states_[host] == State::starting; }
  bool is_running(size_t host) const {
    return is_starting(host) || states_[host] == State::running;
  }
  bool all_ended() const;

  /// Hosts whose agents have not ended.
  size_t left() const { return left_; }

  /// The exit code of all, when all have ended.
  int code() const;

  /// Whether the job ended because an agent that took part was lost.
  bool lost_host() const { return lost_host_; }

 private:
  enum class State { waiting, starting, running, ended };

  Stop decide(Verdict::What what, std::optional<int> code);

  std::vector<State> states_;
  size_t least_;
  size_t left_;
  bool has_spares_;
  bool stopping_ = false;
  bool succeeded_ = false;
  bool lost_host_ = false;
  std::optional<int> reason_;     // the code of the agent that stopped the others
  std::optional<int> last_code_;  // of an agent that took part
  int stop_code_ = kOwnFailure;
};

/// The own lines of a job's ddpruns. Most of them, such as the report, are the same on each host,
/// and are shown once. A text may have several lines. Pure.
class OwnLines {
 public:
  explicit OwnLines(size_t hosts) : hosts_(hosts) {}

  /// Whether to show a text of `host`: the host has now printed it more often than any host before.
  bool is_new(size_t host, std::string_view text);

 private:
  /// With more numbers than this, all counts are forgotten: a text may then be shown twice.
  static constexpr size_t kMostNumbers = size_t{1} << 20;

  struct Count {
    std::vector<unsigned> said;  // by each host
    unsigned shown = 0;
  };

  size_t hosts_;
  std::unordered_map<std::string, Count> counts_;
};

}  // namespace ddprun::remote
