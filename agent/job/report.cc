// SPDX-License-Identifier: Apache-2.0
#include "agent/job/report.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "agent/job/outcome.h"
#include "base/text.h"
#include "launcher/process/exit_status.h"

namespace ddprun::agent {
namespace {

/// Last words of programs, and what they mean under ddprun.
struct Hint {
  std::string_view words;
  std::string_view text;
};
constexpr auto kHints = std::to_array<Hint>({
    {"arguments are required: --local-rank",
     "the program takes its local rank as an argument: --pass_local_rank dash, or ddprun launch"},
    {"arguments are required: --local_rank",
     "the program takes its local rank as an argument: --pass_local_rank underscore"},
    {"unrecognized arguments: --local-rank=",
     "the program takes no local rank as an argument: leave out --pass_local_rank and launch, or "
     "give --use_env"},
    {"unrecognized arguments: --local_rank=",
     "the program takes no local rank as an argument: leave out --pass_local_rank"},
    {"Failed to add port to server",
     "a server of the program's own, such as JAX's coordinator, needs MASTER_PORT: --store worker "
     "leaves it to rank 0"},
    {"Address already in use",
     "ddprun's store has MASTER_PORT; if the program needs it for a server of its own, --store "
     "worker leaves it to rank 0"},
});

/// A line of advice, if the worker's last words or its end show the cause of the failure; else
/// empty.
std::string report_hint(const rendezvous::Failure& failure) {
  for (const Hint& hint : kHints) {
    const bool said = failure.stderr_tail.find(hint.words) != std::string::npos;
    if (said) return std::string(hint.text);
  }
  if (exit_status(failure).signal() != SIGKILL || !failure.cause.empty()) return "";
  return "ddprun did not send this signal; if the kernel did (out of memory), dmesg on " +
         cut(printable(failure.host), 240) + " shows it";
}

using rendezvous::Failure;

constexpr size_t kMostLines = 14;     // of a worker's stderr: a screen has 24
constexpr size_t kMostFrames = 10;    // of these, for a traceback
constexpr size_t kMostColumns = 240;  // three lines of a terminal
constexpr size_t kMostWays = 3;       // shown of workers that fail while ddprun stops them
constexpr std::string_view kTraceback = "Traceback (most recent call last):";

/// Untrusted text as one printable line.
std::string one_line(std::string_view text) {
  std::string line = printable(text);
  for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos; ++at) line[at] = ' ';
  return cut(std::move(line), kMostColumns);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_piece(text, '\n'));
  return lines;
}

/// The last of `lines`, printable, without the empty ones at the end.
std::vector<std::string> last_of(const std::vector<std::string_view>& lines, size_t most) {
  std::vector<std::string> last;
  for (auto line = lines.rbegin(); line != lines.rend() && last.size() < most; ++line) {
    if (!line->empty() || !last.empty()) last.insert(last.begin(), one_line(*line));
  }
  return last;
}

/// The exception without the name of the signal, which the status has already.
std::string_view exception_of(const Failure& failure) {
  const std::string signal = launcher::signal_name(exit_status(failure).signal()) + ": ";
  std::string_view exception = failure.exception;
  if (exception.starts_with(signal)) exception.remove_prefix(signal.size());
  return exception;
}

/// Whether a line only marks columns of the line above.
bool is_marker(std::string_view line) {
  return !line.empty() && line.find_first_not_of(" ^~") == line.npos;
}

/// The frames of the traceback, and the exception after them if it does not fit into the cause
/// line.
std::vector<std::string_view> frames_of(const Failure& failure) {
  std::string_view traceback = failure.traceback;
  while (traceback.ends_with('\n')) traceback.remove_suffix(1);
  if (failure.exception.size() <= kMostColumns && traceback.ends_with(failure.exception)) {
    traceback.remove_suffix(failure.exception.size());
    traceback = traceback.substr(0, traceback.rfind('\n') + 1);  // and the type's module
  }
  std::vector<std::string_view> frames = lines_of(traceback);
  std::erase_if(frames, is_marker);
  if (!frames.empty() && frames.front() == kTraceback) frames.erase(frames.begin());
  return frames;
}

/// Drops the rest of a Python frame whose place was cut off.
void drop_cut_frame(std::vector<std::string>& lines) {
  const auto whole = std::ranges::find_if(
      lines, [](const std::string& line) { return line.starts_with("  File \""); });
  if (whole != lines.end()) lines.erase(lines.begin(), whole);
}

/// The end of stderr without the exception and its traceback, which are usually there, too.
std::vector<std::string_view> other_stderr_lines(const Failure& failure) {
  std::set<std::string_view> known;
  for (const std::string_view line : lines_of(failure.traceback)) known.insert(line);
  for (const std::string_view line : lines_of(failure.exception)) known.insert(line);
  known.erase("");

  std::vector<std::string_view> lines = lines_of(failure.stderr_tail);
  const auto is_known = [&known](std::string_view line) { return known.contains(line); };
  auto first = std::find_if(lines.begin(), lines.end(), is_known);
  if (first == lines.end()) return lines;
  const auto last = std::find_if(lines.rbegin(), lines.rend(), is_known).base();
  while (first != lines.begin() && std::prev(first)->starts_with("  ")) --first;  // outer frames
  lines.erase(first, last);
  return lines;
}

/// `title` and `lines` under it; empty if there are no lines.
std::string block(std::string_view title, const std::vector<std::string>& lines) {
  std::string text;
  if (!lines.empty()) text.append("\n").append(title);
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

/// "exit 1 after 3 s".
std::string how_it_ended(const Failure& failure) {
  if (failure.pid == 0) {
    return exit_status(failure).signal() == 0 ? "it could not be started" : "lost with its node";
  }
  const std::chrono::duration<double> ran(failure.seconds);
  return exit_status(failure).text() + " after " +
         duration_text(std::chrono::duration_cast<std::chrono::nanoseconds>(ran));
}

/// A hang is no rank's failure: the lines of its cause say what all ranks did.
std::string hang_line(const Failure& failure) {
  const std::vector<std::string_view> lines = lines_of(failure.cause);
  return one_line(lines.empty() ? "" : lines.front()) + " (--hang_timeout)";
}

std::string cause_line(const Failure& failure, int round) {
  if (failure.hung) return hang_line(failure);
  const std::string pid = failure.pid == 0 ? "" : ", pid " + std::to_string(failure.pid);
  std::string line = "rank " + std::to_string(failure.rank) +
                     " failed first: " + how_it_ended(failure) + " (host " +
                     one_line(failure.host) + pid + ", round " + std::to_string(round) + ")";
  if (!failure.cause.empty()) line += ": " + one_line(failure.cause);
  if (!failure.exception.empty()) line += ": " + one_line(exception_of(failure));
  return line;
}

/// The first line, and the others under it.
std::string title_and_lines(const std::string& title, std::string_view text) {
  std::vector<std::string_view> lines = lines_of(text);
  if (!lines.empty()) lines.erase(lines.begin());
  std::string all = title;
  for (const std::string& line : last_of(lines, kMostLines)) all += "\n  " + line;
  return all;
}

std::vector<int> ranks_of(const std::vector<StoppedWorker>& workers) {
  std::vector<int> ranks;
  for (const StoppedWorker& worker : workers) ranks.push_back(worker.rank);
  return ranks;
}

/// "exit 1: RuntimeError: disk is full", for workers with the same status; with the last words of
/// the first that has any.
std::string how_they_failed(const std::vector<StoppedWorker>& workers) {
  const std::string how = workers.front().status.text();
  for (const StoppedWorker& worker : workers) {
    const auto words = last_of(lines_of(worker.stderr_tail), 1);
    if (words.empty()) continue;
    const bool is_only = workers.size() == 1;
    return how + (is_only ? "" : "; " + ranks_text({worker.rank})) + ": " + words.front();
  }
  return how;
}

/// The second line: in a hang's text, it says for whom the others waited.
std::string line_after_title(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  return lines.size() < 2 ? "" : one_line(lines[1]);
}

}  // namespace

std::string missing_module_text(const rendezvous::Failure& failure, const JobSpec& job) {
  constexpr std::string_view kNoModule = "ModuleNotFoundError: No module named '";
  const bool is_python = job.own_arguments > 1;  // ddprun put python's words before the script
  std::string_view last = failure.exception.empty() ? failure.stderr_tail : failure.exception;
  while (last.ends_with('\n')) last.remove_suffix(1);
  last.remove_prefix(last.rfind('\n') + 1);  // npos + 1 is 0
  if (!is_python || !last.starts_with(kNoModule)) return "";
  last.remove_prefix(kNoModule.size());
  return job.program + " has no module " + std::string(last.substr(0, last.find('\''))) +
         " (PYTHON_EXEC=FILE names another Python)";
}

std::string failure_report(const rendezvous::Failed& failed) {
  const Failure& cause = failed.root_cause;
  std::string report = failed.suspect.empty() ? "" : suspect_line(failed.suspect) + "\n";
  report +=
      cause.hung ? title_and_lines(hang_line(cause), cause.cause) : cause_line(cause, failed.round);
  const bool never_ran = cause.pid == 0 && exit_status(cause).signal() == 0 && !cause.hung;
  if (never_ran && failed.summary.empty()) return report + "; " + one_line(failed.no_restart);
  auto frames = last_of(frames_of(cause), kMostFrames);
  if (frames_of(cause).size() > kMostFrames) drop_cut_frame(frames);
  std::ranges::transform(frames, frames.begin(), with_cxx_name);
  report += block("its traceback, the innermost call last:", frames);
  report += block("its last words on stderr:",
                  last_of(other_stderr_lines(cause), kMostLines - frames.size()));
  if (!cause.log_folder.empty()) report += "\nits log files: " + one_line(cause.log_folder);
  if (const std::string hint = report_hint(cause); !hint.empty()) report += "\n" + hint;
  for (const std::string& line : last_of(lines_of(failed.summary), kMostLines))
    report += "\n" + line;
  return report + "\nexit code " + std::to_string(exit_status(cause).code()) + "; " +
         one_line(failed.no_restart);
}

std::string failure_line(const Failure& root_cause, int round) {
  std::string line = cause_line(root_cause, round);
  if (root_cause.hung) return line + ": " + line_after_title(root_cause.cause);
  const auto last_line = last_of(lines_of(root_cause.stderr_tail), 1);
  const bool has_cause = !root_cause.cause.empty() || !root_cause.exception.empty();
  if (!has_cause && !last_line.empty()) line += ": " + last_line.front();
  return line;
}

std::string stall_report(const std::string& text, const std::string& statuses) {
  const std::string title = one_line(text.substr(0, text.find('\n')));
  return title_and_lines(title, text) +
         (statuses.empty() ? "" : "\n  last heartbeats: " + one_line(statuses));
}

std::string suspect_line(const std::string& suspect) {
  return one_line(suspect);
}

std::string loss_text(const Failure& root_cause) {
  if (root_cause.hung) return hang_line(root_cause);
  const launcher::ExitStatus status = exit_status(root_cause);
  std::string text = "rank " + std::to_string(root_cause.rank) + " on host " +
                     one_line(root_cause.host) +
                     (root_cause.pid == 0    ? " failed: " + how_it_ended(root_cause)
                      : status.signal() != 0 ? " was " + status.text()
                                             : " failed: " + status.text());
  if (!root_cause.cause.empty()) text += ": " + one_line(root_cause.cause);
  if (!root_cause.exception.empty()) text += ": " + one_line(exception_of(root_cause));
  return text;
}

std::string stop_line(std::vector<StoppedWorker> workers, int signal) {
  std::ranges::sort(workers, {}, &StoppedWorker::rank);
  std::vector<int> saved, signalled, killed, others;
  std::map<int, std::vector<StoppedWorker>> failed;  // by wait status
  for (StoppedWorker& worker : workers) {
    const launcher::ExitStatus status = worker.status;
    if (status.success()) {
      saved.push_back(worker.rank);
    } else if (status.code() == 128 + signal) {  // of the worker, or of a shell around it
      signalled.push_back(worker.rank);
    } else if (status.signal() == SIGKILL) {
      killed.push_back(worker.rank);
    } else if (failed.size() < kMostWays || failed.contains(status.wait_status())) {
      failed[status.wait_status()].push_back(std::move(worker));
    } else {
      others.push_back(worker.rank);
    }
  }
  if (saved.empty() && failed.empty()) return "";
  std::string line;
  const auto add = [&line](const std::vector<int>& ranks, const std::string& how) {
    if (!ranks.empty()) line += (line.empty() ? "" : "; ") + ranks_text(ranks) + how;
  };
  add(saved, " ended with exit code 0");
  add(signalled, " ended by " + launcher::signal_name(signal));
  add(killed, killed.size() == 1 ? " was killed" : " were killed");
  for (const auto& [status, of_status] : failed) {
    add(ranks_of(of_status), " failed while stopping: " + how_they_failed(of_status));
  }
  add(others, " failed in other ways");
  return line;
}

std::string notice_text(int signal, std::size_t signalled, std::size_t workers) {
  const std::string name = launcher::signal_name(signal);
  if (signalled == workers) return name + " to all workers";
  if (signalled == 0) return "no worker here handles " + name + ", so none gets it";
  return name + " to " + std::to_string(signalled) + " of " + std::to_string(workers) +
         " workers here, as the others do not handle it";
}

std::string restart_line(const rendezvous::Layout& layout, int max_restarts,
                         std::chrono::nanoseconds since_failure) {
  return "restart " + std::to_string(layout.restarts) + " of " + std::to_string(max_restarts) +
         ": round " + std::to_string(layout.round) + " with " +
         count_text(layout.node_count, "node") + ", " + count_text(layout.world_size, "worker") +
         ", ready " + duration_text(since_failure) + " after the failure";
}

std::string regroup_line(const rendezvous::Layout& layout, int min_nodes, int max_nodes) {
  const std::string nodes = min_nodes == max_nodes ? count_text(layout.node_count, "node")
                                                   : std::to_string(layout.node_count) + " of " +
                                                         std::to_string(min_nodes) + ":" +
                                                         std::to_string(max_nodes) + " nodes";
  return "round " + std::to_string(layout.round) + " with " + nodes + ", " +
         count_text(layout.world_size, "worker");
}

}  // namespace ddprun::agent
