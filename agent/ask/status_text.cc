// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/status_text.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "base/text.h"
#include "rendezvous/blame/releases.h"

namespace ddprun::agent::ask {
namespace {

using Columns = std::array<std::string, 9>;

const Columns& heading() {
  static const Columns names = {"RANK",   "HOST",   "STATE", "TIME",    "CPU",
                                "MEMORY", "OUTPUT", "GPU",   "PROGRESS"};
  return names;
}
constexpr size_t kAlways = 7;     // each later column is shown only if a row has it
constexpr size_t kLeastRows = 4;  // what the job does, the heading, a rank, the others

std::string time_text(double seconds) {
  return duration_text(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  std::array<char, 32> text{};
  const bool has_fraction = unit > 0 && value < 10;
  std::snprintf(text.data(), text.size(), has_fraction ? "%.1f %s" : "%.0f %s", value,
                kUnits[unit]);
  return text.data();
}

/// A line of the table: a rank, or a node whose answer is missing, incomplete or without ranks.
struct Line {
  int severity = 0;  // the higher, the worse
  int rank = 0;
  std::string what;  // rest_text() counts the lines with the same
  Columns columns;
};

/// Returns 0 if nothing is known to be wrong.
int severity_of(const RankStatus& rank, bool others_run, bool is_slow) {
  if (rank.state == "failed") return 5;
  if (rank.state == "stopped") return 4;
  if (rank.state == "ended") return others_run ? 2 : 0;       // they may wait for it
  if (is_slow || rank.how.starts_with(kThrottled)) return 1;  // they wait at each step
  return 0;
}

std::string state_text(const RankStatus& rank) {
  return rank.how.empty() ? rank.state : rank.state + " (" + rank.how + ")";
}

const RankStatus* find_rank(const JobStatus* status, int rank, int pid) {
  if (status == nullptr) return nullptr;
  for (const NodeStatus& node : status->nodes) {
    if (rank < node.first_rank || rank - node.first_rank >= node.local_size) continue;
    for (const RankStatus& one : node.ranks) {
      if (one.rank == rank && one.pid == pid) return &one;
    }
  }
  return nullptr;
}

std::string percent_text(double share) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.0f %%", 100 * share);
  return text.data();
}

std::string cpu_text(const RankStatus& rank, const RankStatus* before) {
  const double cpu = rank.cpu_seconds - (before != nullptr ? before->cpu_seconds : 0);
  const double seconds = rank.seconds - (before != nullptr ? before->seconds : 0);
  if (seconds <= 0 || cpu < 0) return "-";
  return percent_text(cpu / seconds);
}

/// "97 %, 61 GiB"; empty: nothing is known.
std::string gpu_text(const std::optional<GpuStatus>& gpu) {
  if (!gpu || gpu->memory_total == 0) return "";
  return (gpu->busy ? percent_text(*gpu->busy) + ", " : "") + bytes_text(gpu->memory);
}

Line line_of(const RankStatus& rank, const std::string& host, bool others_run, bool is_slow,
             const JobStatus* before) {
  const bool runs = rank.state == "running" || rank.state == "stopped";
  const RankStatus* earlier = find_rank(before, rank.rank, rank.pid);
  return {severity_of(rank, others_run, is_slow),
          rank.rank,
          rank.state,
          {std::to_string(rank.rank), host, state_text(rank), time_text(rank.seconds),
           runs ? cpu_text(rank, earlier) : "-", runs ? bytes_text(rank.memory) : "-",
           rank.output_age ? time_text(*rank.output_age) + " ago" : "-",
           runs ? gpu_text(rank.gpu) : "", rank.progress}};
}

Line line_of(const NodeStatus& node) {
  std::string ranks = "-";
  if (node.local_size > 0) {
    std::vector<int> all(static_cast<size_t>(std::min(node.local_size, 2)), node.first_rank);
    if (node.local_size > 1) all.back() = node.first_rank + node.local_size - 1;
    ranks = std::to_string(all.front());
    if (node.local_size > 1) ranks += "-" + std::to_string(all.back());
  }
  const bool bad = !node.problem.empty();
  return {bad ? 3 : 0,
          node.first_rank,
          bad ? "unknown" : node.state,
          {ranks, node.host, bad ? node.problem : node.state, "-", "-", "-", "-", "", ""}};
}

std::vector<Line> lines_of(const JobStatus& status, const JobStatus* before) {
  bool any_runs = false;
  for (const NodeStatus& node : status.nodes) {
    for (const RankStatus& rank : node.ranks) any_runs = any_runs || rank.state == "running";
  }
  std::vector<Line> lines;
  for (const NodeStatus& node : status.nodes) {
    if (node.ranks.empty() || !node.problem.empty()) lines.push_back(line_of(node));
    for (const RankStatus& rank : node.ranks) {
      const bool is_slow = status.slow && status.slow->rank == rank.rank;
      lines.push_back(line_of(rank, node.host, any_runs, is_slow, before));
    }
  }
  std::ranges::stable_sort(lines, [](const Line& a, const Line& b) {
    return std::pair(-a.severity, a.rank) < std::pair(-b.severity, b.rank);
  });
  return lines;
}

/// The number of UTF-8 characters: each counts as one column.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (c & '\xC0') != '\x80'; }));
}

std::string fit(std::string line, size_t width) {
  return width_of(line) <= width ? line : cut(std::move(line), width - 3);
}

using Widths = std::array<size_t, std::tuple_size_v<Columns>>;

std::string row_of(const Columns& columns, const Widths& widths, size_t width) {
  std::string row;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!row.empty()) row.append(2, ' ');
    row += columns[i];
    row.append(widths[i] - width_of(columns[i]), ' ');
  }
  row.erase(row.find_last_not_of(' ') + 1);
  return fit(std::move(row), width);
}

/// Red: failed, stopped or unknown. Yellow: others may wait for it.
std::string coloured(const std::string& row, int severity) {
  if (severity == 0) return row;
  return (severity >= 3 ? "\x1b[31m" : "\x1b[33m") + row + "\x1b[0m";
}

/// The states of the ranks for which there is no row: "992 more: 990 running, 2 ended; --all shows
/// them".
std::string rest_text(const std::vector<Line>& lines, size_t from) {
  std::map<std::string, size_t> counts;
  for (size_t i = from; i < lines.size(); ++i) ++counts[lines[i].what];
  std::string text = std::to_string(lines.size() - from) + " more:";
  for (const auto& [what, count] : counts) {
    text += (text.ends_with(':') ? " " : ", ") + std::to_string(count) + " " + what;
  }
  return text + "; --all shows them";
}

std::string job_text(const JobStatus& status) {
  std::string text =
      "job " + status.job + ": " + status.state + " for " + time_text(status.seconds) + ", " +
      std::to_string(status.world_size) + (status.world_size == 1 ? " rank" : " ranks") + " on " +
      std::to_string(status.node_count) + (status.node_count == 1 ? " node" : " nodes");
  if (status.round >= 0) text += ", round " + std::to_string(status.round);
  text += ", " + std::to_string(status.restarts) + " of " + std::to_string(status.max_restarts) +
          " restarts";
  return text + ": " + status.program;
}

/// Empty: all ranks have the same release of PyTorch, if that is known.
std::string releases_text(const JobStatus& status) {
  rendezvous::Releases releases;
  for (const NodeStatus& node : status.nodes) {
    for (const auto& [release, ranks] : node.releases) releases.add(release, ranks, node.host);
  }
  return releases.text();
}

/// Empty: no rank is slow.
std::string slow_text(const JobStatus& status) {
  if (!status.slow) return "";
  const SlowRank& slow = *status.slow;
  const auto node = std::ranges::find_if(status.nodes, [&slow](const NodeStatus& each) {
    return slow.rank >= each.first_rank && slow.rank - each.first_rank < each.local_size;
  });
  std::string text = "rank " + std::to_string(slow.rank);
  if (node != status.nodes.end()) text += " (" + node->host + ")";
  return text + " is slow: the others waited " + time_text(slow.waited) + " of " +
         time_text(slow.seconds) + " for it, the last in " + std::to_string(slow.last) + " of " +
         std::to_string(slow.calls) + " collectives";
}

}  // namespace

std::string status_text(const JobStatus& status, const StatusView& view) {
  const std::vector<Line> lines = lines_of(status, view.before);
  std::string text = fit(job_text(status), view.width) + "\n";
  size_t head = 2;
  const std::string waiting = status.waiting.empty() ? "" : "waiting for " + status.waiting;
  for (const std::string& line : {waiting, releases_text(status), slow_text(status)}) {
    if (line.empty()) continue;
    text += fit(line, view.width) + "\n";
    ++head;
  }
  const size_t room = std::max(view.rows, kLeastRows + head - 2) - head;
  const size_t shown = lines.size() <= room ? lines.size() : room - 1;
  if (shown == 0) return text;
  Widths widths{};
  const auto widen = [&widths](const Columns& columns) {
    for (size_t i = 0; i < columns.size(); ++i) {
      widths[i] = std::max(widths[i], width_of(columns[i]));
    }
  };
  for (size_t i = 0; i < shown; ++i) widen(lines[i].columns);
  const auto had = widths;
  widen(heading());
  for (size_t i = kAlways; i < widths.size(); ++i) {
    if (had[i] == 0) widths[i] = 0;
  }
  text += row_of(heading(), widths, view.width) + "\n";
  for (size_t i = 0; i < shown; ++i) {
    const std::string row = row_of(lines[i].columns, widths, view.width);
    text += (view.coloured ? coloured(row, lines[i].severity) : row) + "\n";
  }
  if (shown < lines.size()) text += fit(rest_text(lines, shown), view.width) + "\n";
  return text;
}

std::string list_heading() {
  return "PID      STATE     RANKS  TIME        JOB: PROGRAM\n";
}

std::string list_line(const JobStatus& status, int pid) {
  const auto padded = [](std::string text, size_t width) {
    text.append(width - std::min(width_of(text), width), ' ');
    return text + "  ";
  };
  return padded(std::to_string(pid), 7) + padded(status.state, 8) +
         padded(std::to_string(status.world_size), 5) + padded(time_text(status.seconds), 10) +
         status.job + ": " + status.program + "\n";
}

}  // namespace ddprun::agent::ask
