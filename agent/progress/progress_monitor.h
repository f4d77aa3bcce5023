// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/job/job_spec.h"
#include "agent/progress/hang_watch.h"
#include "agent/progress/notify_socket.h"
#include "agent/progress/progress_pattern.h"
#include "base/async_jobs.h"
#include "launcher/output/output.h"
#include "launcher/process/process_use.h"
#include "launcher/process/worker_calls.h"

namespace ddprun::agent {

/// Finds out whether this node's workers make progress: from their heartbeats, their output, and
/// the kernel's facts about their processes, read ten times in the hang timeout. DOES what
/// HangWatch decides.
///
/// Thread: the executor's; reads /proc and log files on another one.
class ProgressMonitor {
 public:
  /// News of the node's workers, and for how long they have made no progress, or only computed.
  using Changed = std::function<void(HangWatch::News, std::chrono::duration<double> time)>;

  /// `job` and `output` must outlive it.
  ProgressMonitor(boost::asio::any_io_executor executor, const JobSpec& job,
                  launcher::Output& output);

  /// Takes heartbeats of workers that inherit `environment`, unless NOTIFY_SOCKET in it names
  /// another receiver. It touches the file system, so call it before the first lease.
  void open(const std::vector<std::string>& environment);

  /// "NAME=value" strings for each worker, so that it can send heartbeats.
  const std::vector<std::string>& variables() const { return variables_; }

  /// Watches the workers of a round (rank by pid) until end(), and calls `changed`.
  void begin(std::map<pid_t, int> ranks, Changed changed);
  void end();

  /// Between these calls, this program stops workers for moments to read their stacks. Each
  /// begin_stops() needs an end_stops().
  void begin_stops();
  void end_stops();

  /// The last STATUS of each rank: "rank 0: step 12; rank 1: step 11"; empty: none.
  std::string statuses() const;

  /// The last reports of a worker of the latest round.
  struct Reported {
    std::string status;  ///< its last STATUS; empty: none
    /// Its last heartbeat, or line that matches --progress_pattern; nullopt: none.
    std::optional<std::chrono::steady_clock::time_point> beat;
  };
  Reported reported(int rank) const;

 private:
  /// The findings of a look. The next look compares with them.
  struct Sample {
    HangWatch::Time when;
    std::uint64_t output = 0;  ///< bytes
    std::vector<launcher::ProcessUse> uses;
    std::vector<std::vector<launcher::WorkerCall>> calls;  ///< of each worker that runs
  };

  void on_message(pid_t sender, std::string_view text);
  void on_output(int rank, bool is_stderr, std::string_view bytes);
  void beat(int rank);
  void look_later();
  void look();
  void on_sample(Sample sample);
  Signs signs_since(const Sample& sample) const;
  static bool are_blocked(const Sample& before, const Sample& now);
  void take(HangWatch::News news);

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  launcher::Output& output_;
  NotifySocket socket_;
  std::vector<std::string> variables_;
  std::optional<ProgressPattern> pattern_;
  AsyncJobs jobs_;
  boost::asio::steady_timer timer_;

  int stops_ = 0;               // begun and not ended
  std::uint64_t readings_ = 0;  // calls of begin_stops() since the last look
  bool is_due_ = false;         // a look waits for the end of the stops

  // The latest round.
  std::shared_ptr<char> round_;  // nullptr: none runs
  std::optional<HangWatch> watch_;
  std::map<pid_t, int> ranks_;
  std::map<int, Reported> reported_;
  Changed changed_;
  std::optional<Sample> before_;
  std::map<std::pair<int, bool>, PatternLines> lines_;  // by rank, and whether it is stderr
};

}  // namespace ddprun::agent
