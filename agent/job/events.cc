// SPDX-License-Identifier: Apache-2.0
#include "agent/job/events.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"

namespace ddprun::agent {
namespace {

/// The most bytes that wait for a stalled disk: some thousand events.
constexpr std::size_t kMaxPending = 1024 * 1024;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Adds how a process ended; `signal` only if one killed it.
void add_status(OrderedJson& fields, launcher::ExitStatus status) {
  fields["code"] = status.code();
  if (status.signal() != 0) fields["signal"] = launcher::signal_name(status.signal());
  fields["status"] = status.text();
}

struct OutcomeFields {
  OrderedJson& fields;

  void operator()(const JobSucceeded&) const { fields["outcome"] = "succeeded"; }
  void operator()(const JobFailed&) const { fields["outcome"] = "worker_failed"; }
  void operator()(const Interrupted& interrupted) const {
    fields["outcome"] = "interrupted";
    fields["signal"] = launcher::signal_name(interrupted.signal);
  }
  void operator()(const Error& error) const {
    fields["outcome"] = "error";
    fields["error"] = error.message;
  }
};

}  // namespace

struct Events::Fields {
  OrderedJson json = OrderedJson::object();
};

/// The file that the thread writes to.
struct Events::File {
  explicit File(Fd opened) : fd(std::move(opened)) {}

  void append(std::string_view line) {
    ssize_t written = -1;
    do {
      written = ::write(fd.get(), line.data(), line.size());
    } while (written < 0 && errno == EINTR);
    if (written != static_cast<ssize_t>(line.size())) failure = written < 0 ? errno : ENOSPC;
    pending -= line.size();
  }

  const Fd fd;
  std::atomic<std::size_t> pending = 0;  // bytes
  std::atomic<int> failure = 0;          // errno of the last one
};

Result<Events> Events::open(const std::string& path) {
  Events events;
  if (path.empty()) return events;
  events.path_ = path;
  // O_NONBLOCK is for named pipes: open would block without a reader, and write with a slow one.
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  Fd file(::open(path.c_str(), kFlags, 0666));
  if (!file) {
    Error error = os_error("cannot open the events file " + path, errno);
    return Error{Errc::usage, std::move(error.message)};
  }
  events.file_ = std::make_shared<File>(std::move(file));
  return events;
}

void Events::append(std::string_view event, const Fields& fields) {
  OrderedJson json = {{"event", event},
                      {"monotonic_ns", nanoseconds(CLOCK_MONOTONIC)},
                      {"wall_ns", nanoseconds(CLOCK_REALTIME)},
                      {"agent_pid", getpid()}};
  json.update(fields.json);
  // Arguments and paths need not be UTF-8: invalid bytes become U+FFFD.
  std::string line = json_text(json) + '\n';
  if (file_->pending > kMaxPending) {
    stalled_ = true;
  } else {
    file_->pending += line.size();
    thread_.run([file = file_, line = std::move(line)] { file->append(line); });
  }
  report_loss();
}

void Events::report_loss() {
  const int failure = file_->failure;
  if ((failure == 0 && !stalled_) || std::exchange(loss_reported_, true)) return;
  const std::string what = "cannot write to the events file " + path_;
  log::warning((stalled_ ? what + ": its disk has stalled" : os_error(what, failure).message) +
               "; events are missing");
}

void Events::finish(std::chrono::milliseconds limit) {
  if (!file_) return;
  stalled_ |= !thread_.wait_until_idle(std::chrono::steady_clock::now() + limit);
  report_loss();
}

void Events::job_started(const JobSpec& job) {
  if (!file_) return;
  append("job_started", {{{"run_id", job.run_id},
                          {"program", job.program},
                          {"command", job.command},
                          {"local_size", job.local_size},
                          {"max_restarts", job.max_restarts},
                          {"devices", job.devices}}});
}

void Events::serving(std::uint16_t port) {
  if (!file_) return;
  append("serving", {{{"port", port}}});
}

void Events::round_ready(const rendezvous::Layout& layout, std::string_view master_addr,
                         std::uint16_t master_port) {
  if (!file_) return;
  append("round_ready", {{{"round", layout.round},
                          {"restarts", layout.restarts},
                          {"node_rank", layout.node_rank},
                          {"node_count", layout.node_count},
                          {"first_rank", layout.first_rank},
                          {"local_size", layout.local_size},
                          {"world_size", layout.world_size},
                          {"master_addr", master_addr},
                          {"master_port", master_port}}});
}

void Events::worker_started(int round, int rank, int local_rank, pid_t pid) {
  if (!file_) return;
  append("worker_started",
         {{{"round", round}, {"rank", rank}, {"local_rank", local_rank}, {"pid", pid}}});
}

void Events::worker_ended(int round, int rank, int local_rank, pid_t pid,
                          launcher::ExitStatus status, double seconds, std::string_view exception) {
  if (!file_) return;
  Fields fields{{{"round", round}, {"rank", rank}, {"local_rank", local_rank}, {"pid", pid}}};
  add_status(fields.json, status);
  fields.json["seconds"] = seconds;
  if (!exception.empty()) fields.json["exception"] = exception;
  append("worker_ended", fields);
}

void Events::round_stopping(int round, int signal) {
  if (!file_) return;
  append("round_stopping", {{{"round", round}, {"signal", launcher::signal_name(signal)}}});
}

void Events::restart(int round, int restarts, int max_restarts) {
  if (!file_) return;
  append("restart", {{{"round", round}, {"restarts", restarts}, {"max_restarts", max_restarts}}});
}

void Events::hang(int round, std::string_view report) {
  if (!file_) return;
  append("hang", {{{"round", round}, {"report", report}}});
}

void Events::signal_received(int signal) {
  if (!file_) return;
  append("signal_received", {{{"signal", launcher::signal_name(signal)}}});
}

void Events::job_ended(const Outcome& outcome, int exit_code) {
  if (!file_) return;
  Fields fields;
  std::visit(OutcomeFields{fields.json}, outcome);
  fields.json["exit_code"] = exit_code;
  append("job_ended", fields);
}

}  // namespace ddprun::agent
