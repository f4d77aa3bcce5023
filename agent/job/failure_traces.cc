// SPDX-License-Identifier: Apache-2.0
#include "agent/job/failure_traces.h"

#include <chrono>
#include <csignal>
#include <memory>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>

#include "launcher/kernel/core_file.h"
#include "launcher/process/recorded_calls.h"

namespace ddprun::agent {
namespace {

/// How long a failure may wait for the files that explain it.
constexpr std::chrono::seconds kReadingLimit{1};

/// The free bytes of a disk that counts as full: a full disk may have some left.
constexpr unsigned long long kNoSpace = 4096;

bool is_disk_full(const std::string& file) {
  struct statvfs disk{};
  if (statvfs(file.c_str(), &disk) != 0) return false;
  const auto blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
  return disk.f_blocks > 0 && blocks * disk.f_frsize < kNoSpace;
}

/// A cause: the disk of one of its log `files` has no space left. Empty: all have.
std::string full_disk_text(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (is_disk_full(file)) {
      return "no space left on the disk of its log file " + file +
             ", which may lack its last words";
    }
  }
  return "";
}

/// The place of the core of process `pid`, which ended with `status`: a path, or the command that
/// shows it. Empty: there is no core, or its place is unknown.
std::string core_of(launcher::ExitStatus status, pid_t pid) {
  const bool dumped = WIFSIGNALED(status.wait_status()) && WCOREDUMP(status.wait_status());
  return dumped ? launcher::find_core(pid) : "";
}

/// Reads files, so it may block; for any thread.
Traces read_traces(const launcher::WorkerEnd& end, const TracePlaces& places,
                   std::timespec stopped) {
  const std::string file = end.stopped ? read_error_file_of_before(places.error_file, stopped)
                                       : read_error_file(places.error_file);
  const bool counts = !end.stopped || is_of_before(places.calls_file, stopped);
  const bool may_lack_space = !end.stopped && end.status.signal() != SIGKILL;
  return {parse_error_file(file).value_or(WorkerException()),
          places.stderr_end.read(),
          may_lack_space ? full_disk_text(places.log_files) : "",
          core_of(end.status, end.pid),
          places.log_folder,
          counts ? launcher::left_calls(places.calls_file) : std::vector<launcher::WorkerCall>()};
}

/// A pending read(): the files or the limit conclude it, once.
struct Reading {
  boost::asio::steady_timer limit;
  bool concluded = false;
};

}  // namespace

void TraceReader::read(const launcher::WorkerEnd& end, TracePlaces places, std::timespec stopped,
                       Done done) {
  auto reading = std::make_shared<Reading>(Reading{boost::asio::steady_timer(executor_)});
  const auto conclude = [reading, done = std::move(done)](const Traces& traces) {
    if (std::exchange(reading->concluded, true)) return;
    reading->limit.cancel();
    done(traces);
  };
  reading->limit.expires_after(kReadingLimit);
  reading->limit.async_wait([conclude, text = places.stderr_end.text,
                             folder = places.log_folder](boost::system::error_code cancelled) {
    if (!cancelled) conclude({{}, text, {}, {}, folder});
  });
  disk_.run(
      [end, places = std::move(places), stopped] { return read_traces(end, places, stopped); },
      conclude);
}

}  // namespace ddprun::agent
