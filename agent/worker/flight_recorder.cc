// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/flight_recorder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "agent/worker/recorder_hook.h"
#include "agent/worker/worker_env.h"
#include "base/log.h"
#include "launcher/output/log_dir.h"
#include "launcher/process/py_spy.h"
#include "launcher/process/recorded_calls.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kPath = "PYTHONPATH";
constexpr const char* kHookFile = "/sitecustomize.py";
constexpr std::chrono::milliseconds kTimeToAnswer{500};

/// A group of `ddp` is in both: the page of its process lacks the times.
void add_recorded(std::vector<launcher::WorkerCall>& calls,
                  const std::vector<launcher::WorkerCall>& recorded) {
  for (const launcher::WorkerCall& more : recorded) {
    const auto same = std::ranges::find(calls, more.group, &launcher::WorkerCall::group);
    if (same == calls.end()) {
      calls.push_back(more);
    } else {
      same->begun = more.begun;  // it was read later
      same->members = more.members;
      same->times = more.times;
    }
  }
}

}  // namespace

FlightRecorder::~FlightRecorder() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);  // and what Python compiled
}

bool FlightRecorder::open(const JobSpec& job, const std::vector<std::string>& environment,
                          const std::string& folder) {
  if (!job.flight_recorder || !launcher::is_python(job.program)) return true;
  if (mkdir(folder.c_str(), 0700) != 0) {
    log::debug("no folder for the calls that PyTorch records");
    return true;
  }
  lock_ = launcher::lock_directory(folder);
  if (!lock_) {
    rmdir(folder.c_str());
    return false;
  }
  folder_ = folder;
  std::ofstream file(folder_ + kHookFile);
  file << kRecorderHook;
  file.close();
  if (!file) return true;
  const char* const inherited = find_variable(environment, kPath);
  variables_ = {std::string(kPath) + "=" + folder_ +
                    (inherited == nullptr ? "" : ":" + std::string(inherited)),
                "DDPRUN_RECORDER_FOLDER=" + folder_};
  return true;
}

void FlightRecorder::begin(int first_rank, int local_size) {
  const int first = std::exchange(first_rank_, first_rank);
  const int end = first + std::exchange(local_size_, local_size);
  for (int rank = first; rank < end && !folder_.empty(); ++rank) {
    unlink(socket_of(rank).c_str());
    unlink(file_of(rank).c_str());
  }
}

std::string FlightRecorder::socket_of(int rank) const {
  return variables_.empty() ? "" : folder_ + "/" + std::to_string(rank);
}

std::string FlightRecorder::file_of(int rank) const {
  return variables_.empty() ? "" : socket_of(rank) + ".last";
}

std::map<int, std::vector<launcher::WorkerCall>> calls_of(
    const std::vector<WorkerProcess>& workers) {
  std::map<int, std::vector<launcher::WorkerCall>> calls;
  std::vector<std::string> sockets;
  for (const WorkerProcess& worker : workers) {
    calls[worker.rank] = launcher::calls_of(worker.pid, worker.rank);
    sockets.push_back(worker.recorder);
  }
  const auto recorded = launcher::recorded_calls(sockets, kTimeToAnswer);
  for (size_t i = 0; i < workers.size(); ++i) add_recorded(calls[workers[i].rank], recorded[i]);
  return calls;
}

}  // namespace ddprun::agent
