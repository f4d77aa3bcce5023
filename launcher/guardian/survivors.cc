// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/survivors.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "base/blocking_io.h"
#include "base/file_text.h"
#include "base/text.h"
#include "launcher/kernel/control_groups.h"
#include "launcher/kernel/process_sample.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kMostNamed = 8;
constexpr int kMostThreads = 64;  // of a process, that are read

bool may_signal(pid_t pid) {
  return kill(pid, 0) == 0 || errno != EPERM;
}

std::string user_text(uid_t user) {
  return user == 0 ? "root" : "the user with id " + std::to_string(user);
}

std::string refusal_of(const Survivor& survivor) {
  const std::string whose =
      survivor.process.name.empty() ? "another user" : user_text(survivor.user);
  return process_text(survivor.process) + " runs as " + whose + ", and ddprun may not end it";
}

/// A tracer holds a killed thread if it has stopped it at its end, or has not reaped it.
void add_thread(Survivor& survivor, const std::string& status) {
  const ProcessSample thread = parse_proc_status(status);
  if (thread.state == 'D') survivor.sleeping = true;
  if (thread.traced && (thread.state == 't' || thread.state == 'Z')) {
    survivor.tracer = static_cast<pid_t>(proc_number(status, "TracerPid"));
  }
}

Survivor read_survivor(const Descendant& process) {
  const std::string folder = "/proc/" + std::to_string(process.pid);
  Survivor survivor;
  survivor.may_signal = may_signal(process.pid);
  survivor.user = static_cast<uid_t>(proc_number(proc_text(process.pid, "status"), "Uid"));
  survivor.frozen = is_frozen(process.pid);
  std::error_code failed;
  int left = kMostThreads;
  for (std::filesystem::directory_iterator thread(folder + "/task", failed), end;
       !failed && thread != end && left-- > 0; thread.increment(failed)) {
    add_thread(survivor, file_text(thread->path().string() + "/status"));
  }
  if (survivor.tracer != 0) {
    survivor.tracer_name = proc_value(proc_text(survivor.tracer, "status"), "Name");
  }
  survivor.process = process;
  return survivor;
}

std::string first_few(const std::vector<Descendant>& processes, const char* separator,
                      const std::function<std::string(const Descendant&)>& text_of) {
  if (processes.empty()) return "a process that /proc does not show";
  const std::size_t named = std::min(processes.size(), kMostNamed);
  std::string text;
  for (std::size_t i = 0; i < named; ++i) text += (i == 0 ? "" : separator) + text_of(processes[i]);
  const std::size_t more = processes.size() - named;
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

}  // namespace

std::string survivor_text(const Survivor& survivor) {
  const std::string process = process_text(survivor.process);
  const Descendant tracer{survivor.tracer, 0, 0, '?', survivor.tracer_name};
  if (has_ended(survivor.process)) {
    if (survivor.tracer == 0) return process + " has ended, and is not yet reaped";
    return process + " has ended, but " + process_text(tracer) +
           ", which traces it, has not let it go";
  }
  if (!survivor.may_signal) return refusal_of(survivor);
  if (survivor.frozen) return process + " is frozen by its control group";
  if (survivor.tracer != 0) {
    return process + " is held by " + process_text(tracer) + ", which traces it";
  }
  if (survivor.sleeping) return process + " is in uninterruptible sleep (D)";
  return process + " has not ended yet";
}

std::string names_text(const std::vector<Descendant>& processes) {
  return first_few(processes, ", ", process_text);
}

std::string survivors_text(const std::vector<Descendant>& left) {
  return first_few(left, "; ",
                   [](const Descendant& process) { return survivor_text(read_survivor(process)); });
}

std::string refusal_text(std::vector<Descendant> processes) {
  std::erase_if(processes, [](const Descendant& process) { return may_signal(process.pid); });
  if (processes.empty()) return "";
  return first_few(processes, "; ",
                   [](const Descendant& process) { return refusal_of(read_survivor(process)); });
}

void SurvivorWait::begin() {
  if (began_ == Clock::time_point::max()) began_ = Clock::now();
}

std::chrono::milliseconds SurvivorWait::time_left() const {
  if (began_ == Clock::time_point::max()) return std::chrono::hours(24);
  return std::chrono::milliseconds(poll_time(began_ + next_));
}

void SurvivorWait::report_if_due() {
  if (began_ == Clock::time_point::max() || Clock::now() < began_ + next_) return;
  report_("waiting " + duration_text(next_) +
          " for processes to end after SIGKILL: " + survivors_text(unreaped_descendants()));
  next_ *= 2;
}

void SurvivorWait::end() {
  if (next_ == std::chrono::seconds(5)) return;  // nothing was reported
  report_("all processes have ended after " + duration_text(Clock::now() - began_));
}

}  // namespace ddprun::launcher
