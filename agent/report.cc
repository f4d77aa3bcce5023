// SPDX-License-Identifier: Apache-2.0
#include "agent/report.h"

#include <csignal>
#include <string_view>

#include "base/text.h"
#include "launcher/exit_status.h"

namespace ddprun::agent {
namespace {

using launcher::ExitStatus;
using launcher::signal_name;
using rendezvous::Failure;

constexpr size_t kMostLines = 14;     // of last words: a screen has 24
constexpr size_t kMostColumns = 240;  // three lines of a terminal

std::string plural(int count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

/// "rank 3 was", "ranks 0-6, 8-127 were".
std::string ranks_text(const std::vector<int>& ranks, const char* one, const char* many) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + compress_ranks(ranks) + " " +
         (ranks.size() == 1 ? one : many);
}

/// At most kMostColumns bytes of `line`, without half a character at the end.
std::string cut(std::string line) {
  if (line.size() <= kMostColumns) return line;
  size_t end = kMostColumns;
  while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
  line.resize(end);
  return line + "...";
}

/// A stranger's text on one line of ours.
std::string one_line(std::string_view text) {
  std::string line = printable(text);
  for (size_t at = 0; (at = line.find('\n', at)) != std::string::npos; ++at) line[at] = ' ';
  return cut(std::move(line));
}

/// The last lines of `text`, the empty ones at its end left out.
std::vector<std::string> last_lines(std::string_view text, size_t most) {
  std::vector<std::string> lines;
  while (!text.empty() && lines.size() < most) {
    const size_t newline = text.rfind('\n');
    const std::string_view line = newline == text.npos ? text : text.substr(newline + 1);
    text = text.substr(0, newline == text.npos ? 0 : newline);
    if (!line.empty() || !lines.empty()) lines.insert(lines.begin(), one_line(line));
  }
  return lines;
}

std::string cause_line(const Failure& failure, int round) {
  const std::chrono::duration<double> ran(failure.seconds);
  std::string line = "rank " + std::to_string(failure.rank) +
                     " failed first: " + ExitStatus(failure.wait_status).text() + " after " +
                     duration_text(std::chrono::duration_cast<std::chrono::nanoseconds>(ran)) +
                     " (host " + one_line(failure.host) + ", pid " + std::to_string(failure.pid) +
                     ", round " + std::to_string(round) + ")";
  if (!failure.cause.empty()) line += ": " + one_line(failure.cause);
  return line;
}

/// Who else may have killed it, when nobody told.
std::string unexplained_kill(const Failure& failure) {
  if (ExitStatus(failure.wait_status).signal() != SIGKILL || !failure.cause.empty()) return "";
  return "\nddprun did not send this signal; if the kernel did, for want of memory, its log on " +
         one_line(failure.host) + " says so (dmesg)";
}

std::string stopped_text(const StopSummary& stop) {
  if (stop.stopped.empty()) return "";
  std::string text = "\n" + ranks_text(stop.stopped, "was", "were") + " stopped by ddprun (" +
                     signal_name(stop.signal) + ", gone after " + duration_text(stop.took);
  if (!stop.killed.empty() && stop.signal != SIGKILL) {
    text += "; " + ranks_text(stop.killed, "needed", "needed") + " SIGKILL";
  }
  return text + ")";
}

std::string ending_text(const Failure& failure, int restarts, int max_restarts) {
  std::string text = "\nexit code " + std::to_string(ExitStatus(failure.wait_status).code());
  if (max_restarts == 0) return text + "; no restarts were asked for (--max_restarts N)";
  return text + "; no restart left (" + std::to_string(restarts) + " of " +
         std::to_string(max_restarts) + " used)";
}

}  // namespace

std::string failure_report(const Failure& root_cause, int round, const StopSummary& stop,
                           int restarts, int max_restarts) {
  std::string report = cause_line(root_cause, round);
  const auto words = last_lines(root_cause.last_words, kMostLines);
  if (!words.empty()) report += "\nits last words on stderr:";
  for (const std::string& line : words) report += "\n  " + line;
  return report + unexplained_kill(root_cause) + stopped_text(stop) +
         ending_text(root_cause, restarts, max_restarts);
}

std::string failure_line(const Failure& root_cause, int round) {
  std::string line = cause_line(root_cause, round);
  const auto words = last_lines(root_cause.last_words, 1);
  if (root_cause.cause.empty() && !words.empty()) line += ": " + words.front();
  return line;
}

std::string restart_line(const rendezvous::Layout& layout, int max_restarts,
                         std::chrono::nanoseconds since_failure) {
  return "restart " + std::to_string(layout.restarts) + " of " + std::to_string(max_restarts) +
         ": round " + std::to_string(layout.round) + " with " + plural(layout.node_count, "node") +
         ", " + plural(layout.world_size, "worker") + ", ready " + duration_text(since_failure) +
         " after the failure";
}

}  // namespace ddprun::agent
