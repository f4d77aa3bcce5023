// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/ask/arrivals.h"
#include "base/error.h"

// The contents of `ddprun status`, as JSON and back; docs/status.md has the fields. status_in()
// bounds what another node or program says. Pure.

namespace ddprun::agent::ask {

/// The first word of RankStatus::how if the worker's control group uses up its CPU time, or if its
/// GPU is slowed.
inline constexpr const char* kThrottled = "throttled";

/// The GPUs of a worker, with all processes on them: sums, and the mean of `busy`.
struct GpuStatus {
  std::string names;               ///< as in CUDA_VISIBLE_DEVICES: "3", "0,1"
  std::uint64_t memory = 0;        ///< bytes in use
  std::uint64_t memory_total = 0;  ///< bytes; 0: only the names are known
  std::optional<double> busy{};    ///< share of the time in which it computed, 0 to 1
  std::optional<double> watts{};
  std::string slowed{};  ///< why its clocks are lowered; empty: no fault of the host is known
};

/// A worker of the latest round.
struct RankStatus {
  int rank = 0;  ///< global
  int pid = 0;
  std::string state;  ///< "running", "stopped" (by a signal), "ended" (with 0) or "failed"
  /// If the worker runs: the system call in which it waits, kThrottled and the reason, or empty.
  /// Else how it ended.
  std::string how;
  double seconds = 0;                ///< since it began, or for which it ran if it has ended
  double cpu_seconds = 0;            ///< of its process
  std::uint64_t memory = 0;          ///< resident bytes of its process
  std::optional<double> output_age;  ///< since its last output; nullopt: there was none, or unknown
  /// Since its last heartbeat, or its last line that matches --progress_pattern; nullopt: no such.
  std::optional<double> heartbeat_age{};
  /// STATUS of its heartbeats, as "step 12", or else its collective call, "in #121 all_reduce[8]";
  /// empty: neither is known.
  std::string progress{};
  /// The number of collective calls by `ddp` or PyTorch that it has begun; nullopt: unknown.
  std::optional<std::uint64_t> collectives{};
  std::optional<GpuStatus> gpu{};  ///< nullopt: its node has none
  std::string recorder{};          ///< its FlightRecorder::socket_of, which is not sent
};

/// The arrivals of a node's ranks at their last collective calls.
struct TimedArrivals {
  Interval clock;  ///< from the question to the answer, by the node's clock
  std::vector<GroupArrivals> groups;
};

/// A node, and its workers of the latest round.
struct NodeStatus {
  std::string host;
  int node_rank = -1;  ///< -1: it was in no round
  int pid = 0;         ///< of its ddprun; 0: unknown
  std::string
      state;  ///< "joining", "running", "stopping", "draining", "done"; of others "waiting" ...
  double contact = 0;   ///< seconds since the master heard from it
  std::string problem;  ///< why its answer is missing or incomplete; empty: it is whole
  int first_rank = 0;
  int local_size = 0;
  std::vector<RankStatus> ranks;
  std::map<std::string, std::vector<int>> releases{};  ///< of PyTorch, and the ranks that have them
  std::optional<TimedArrivals> arrivals{};             ///< of an answer to another node
};

struct JobStatus {
  std::string job;      ///< --rdzv_id
  std::string master;   ///< its address
  std::string session;  ///< random, the same on all nodes of the job; empty: it has not begun
  std::string program;
  std::string state;    ///< as NodeStatus::state, of the node that was asked
  std::string waiting;  ///< what the job waits for, in words; may be empty
  int round = -1;       ///< -1: none yet
  int restarts = 0;
  int max_restarts = 0;
  int world_size = 0;
  int node_count = 0;  ///< nodes of the round
  double seconds = 0;  ///< since the asked ddprun began
  std::vector<NodeStatus> nodes;
  std::optional<SlowRank> slow{};  ///< nullopt: there is none, or it is unknown
};

/// The most ranks of a node that status_in() reads.
inline constexpr size_t kMaxRanks = 65'536;

/// Compact JSON: without control characters, some 120 bytes a rank.
std::string to_json(const JobStatus& status);

/// Errors: protocol, naming the field that is wrong.
Result<JobStatus> status_in(std::string_view text);

}  // namespace ddprun::agent::ask
