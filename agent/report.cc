// SPDX-License-Identifier: Apache-2.0
#include "agent/report.h"

#include <csignal>
#include <string_view>

#include "base/text.h"
#include "launcher/exit_status.h"

namespace ddprun::agent {
namespace {

using launcher::ExitStatus;
using rendezvous::Failure;

constexpr size_t kMostLines = 14;     // of last words: a screen has 24
constexpr size_t kMostColumns = 240;  // three lines of a terminal

std::string plural(int count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
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

}  // namespace

std::string failure_report(const rendezvous::Failed& failed) {
  const Failure& cause = failed.root_cause;
  std::string report = cause_line(cause, failed.round);
  const auto words = last_lines(cause.last_words, kMostLines);
  if (!words.empty()) report += "\nits last words on stderr:";
  for (const std::string& line : words) report += "\n  " + line;
  report += unexplained_kill(cause);
  for (const std::string& line : last_lines(failed.aftermath, kMostLines)) report += "\n" + line;
  return report + "\nexit code " + std::to_string(ExitStatus(cause.wait_status).code()) + "; " +
         one_line(failed.no_restart);
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

std::string regroup_line(const rendezvous::Layout& layout, int min_nodes, int max_nodes) {
  const std::string nodes = min_nodes == max_nodes ? plural(layout.node_count, "node")
                                                   : std::to_string(layout.node_count) + " of " +
                                                         std::to_string(min_nodes) + ":" +
                                                         std::to_string(max_nodes) + " nodes";
  return "round " + std::to_string(layout.round) + " with " + nodes + ", " +
         plural(layout.world_size, "worker");
}

}  // namespace ddprun::agent
