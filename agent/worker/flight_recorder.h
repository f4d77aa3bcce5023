// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

#include "agent/job/job_spec.h"
#include "base/fd.h"
#include "launcher/process/worker_calls.h"

namespace ddprun::agent {

/// A worker that runs.
struct WorkerProcess {
  int rank = 0;  ///< global
  pid_t pid = 0;
  std::string recorder{};  ///< FlightRecorder::socket_of
};

/// Reads the collective calls of workers that use PyTorch from its flight recorder. The interpreter
/// of each worker runs kRecorderHook, by PYTHONPATH, from a folder that only this user may enter;
/// the sockets and files of workers are there, too. A worker does nothing until it is asked.
class FlightRecorder {
 public:
  FlightRecorder() = default;
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// Makes `folder` if the program of `job` is Python; at the start, as it may block. Without a
  /// folder nothing is read. Returns false if another one has to be tried: one that is not locked
  /// yet may be removed as abandoned.
  bool open(const JobSpec& job, const std::vector<std::string>& environment,
            const std::string& folder);

  /// "NAME=value" strings for each worker; PYTHONPATH replaces the one that it inherits.
  const std::vector<std::string>& variables() const { return variables_; }

  /// A round with these ranks begins: removes what the ranks of the one before have left.
  void begin(int first_rank, int local_size);

  /// The socket at which a worker answers, and the file that it leaves; empty: there is no folder.
  std::string socket_of(int rank) const;
  std::string file_of(int rank) const;

 private:
  std::string folder_;
  Fd lock_;             // of the folder, as for all that remove_abandoned_dirs may remove
  int first_rank_ = 0;  // of those that may have left something
  int local_size_ = 0;
  std::vector<std::string> variables_;
};

/// The calls of these workers, by rank: those of `ddp`, or else those that PyTorch has recorded.
/// Takes some milliseconds, and half a second if a worker does not answer. For any thread; blocks.
std::map<int, std::vector<launcher::WorkerCall>> calls_of(
    const std::vector<WorkerProcess>& workers);

}  // namespace ddprun::agent
