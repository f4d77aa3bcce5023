// SPDX-License-Identifier: Apache-2.0
#include "agent/web/metrics.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/number.h"

namespace ddprun::agent::web {
namespace {

using ask::GpuStatus;
using ask::JobStatus;
using ask::NodeStatus;
using ask::RankStatus;
using Labels = std::vector<std::pair<std::string_view, std::string>>;

/// Avoids std::to_chars: each start would map 140 KiB of its tables.
std::string number_text(double number) {
  std::array<char, 32> digits{};
  std::snprintf(digits.data(), digits.size(), "%.15g", number);
  return digits.data();
}

/// Writes families of metrics one after the other.
class Writer {
 public:
  /// Begins a family, to which the next samples belong. Their names end in "_total" if it is a
  /// counter, in "_info" if it is an info.
  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_.assign("ddprun_").append(name);
    suffix_ = type == "counter" ? "_total" : type == "info" ? "_info" : "";
    text_.append("# TYPE ").append(name_).append(" ").append(type).append("\n");
    text_.append("# HELP ").append(name_).append(" ").append(help).append("\n");
  }

  void sample(double value, const Labels& labels = {}) {
    text_.append(name_).append(suffix_);
    char separator = '{';
    for (const auto& [label, text] : labels) {
      (text_ += std::exchange(separator, ',')).append(label).append("=").append(label_value(text));
    }
    if (!labels.empty()) text_ += '}';
    text_.append(" ").append(number_text(value)).append("\n");
  }

  std::string end() && { return std::move(text_.append("# EOF\n")); }

 private:
  std::string text_;
  std::string name_;
  std::string_view suffix_;
};

void write_counts(Writer& out, const char* family, const char* help, const char* label,
                  const std::map<std::string, int>& counts, const char* type = "gauge") {
  out.family(family, type, help);
  for (const auto& [name, count] : counts) out.sample(count, {{label, name}});
}

void write_job(Writer& out, const JobStatus& status, const History& history, double now) {
  out.family("job", "info", "The job.");
  out.sample(1, {{"job", status.job}, {"program", status.program}, {"master", status.master}});
  out.family("round", "gauge", "The latest round, from 0; -1: none has begun.");
  out.sample(status.round);
  out.family("world_size", "gauge", "Ranks of the latest round.");
  out.sample(status.world_size);
  out.family("restarts", "counter", "Restarts after a failure, of the whole job.");
  out.sample(status.restarts);
  write_counts(out, "failures", "Failures that ended a round.", "cause", history.failures(),
               "counter");
  out.family("downtime_seconds", "counter", "Time without a round after the first one.");
  out.sample(history.downtime(now));
  out.family("uptime_seconds", "gauge", "Time since this ddprun began.");
  out.sample(now);
  out.family("hang", "gauge", "1 while no rank makes progress, as ddprun has reported, else 0.");
  out.sample(history.hangs() ? 1 : 0);
}

/// Writes a family with a sample for each worker that has a value.
void write_workers(Writer& out, const JobStatus& status, const char* family, const char* type,
                   const char* help,
                   const std::function<std::optional<double>(const RankStatus&)>& value) {
  out.family(family, type, help);
  for (const NodeStatus& node : status.nodes) {
    for (const RankStatus& rank : node.ranks) {
      const std::optional<double> number = value(rank);
      if (number) out.sample(*number, {{"rank", std::to_string(rank.rank)}, {"host", node.host}});
    }
  }
}

std::optional<double> if_runs(const RankStatus& rank, double value) {
  const bool runs = rank.state == "running" || rank.state == "stopped";
  return runs ? std::optional(value) : std::nullopt;
}

/// 12 in "step 12", as ddp::heartbeat sends it, and in "step 12: loss 0.3".
std::optional<double> step_in(std::string_view progress) {
  constexpr std::string_view kStep = "step ";
  if (!progress.starts_with(kStep)) return std::nullopt;
  const auto step = leading_number<std::int64_t>(progress.substr(kStep.size()));
  return step ? std::optional(static_cast<double>(*step)) : std::nullopt;
}

void write_gpus(Writer& out, const JobStatus& status) {
  const auto write = [&](const char* family, const char* help, auto value) {
    write_workers(out, status, family, "gauge", help,
                  [&value](const RankStatus& rank) -> std::optional<double> {
                    const bool known = rank.gpu && rank.gpu->memory_total > 0;
                    return known ? value(*rank.gpu) : std::nullopt;
                  });
  };
  using Number = std::optional<double>;
  write("worker_gpu_memory_bytes", "Memory in use on the worker's GPU.",
        [](const GpuStatus& gpu) { return Number(static_cast<double>(gpu.memory)); });
  write("worker_gpu_memory_total_bytes", "Memory of the worker's GPU.",
        [](const GpuStatus& gpu) { return Number(static_cast<double>(gpu.memory_total)); });
  write("worker_gpu_utilization_ratio", "Share of the time in which the worker's GPU computed.",
        [](const GpuStatus& gpu) { return gpu.busy; });
  write("worker_gpu_power_watts", "Power that the worker's GPU takes.",
        [](const GpuStatus& gpu) { return gpu.watts; });
  write("worker_gpu_slowed", "1 while a fault of the host, such as heat, slows the GPU, else 0.",
        [](const GpuStatus& gpu) { return Number(gpu.slowed.empty() ? 0 : 1); });
}

void write_ranks(Writer& out, const JobStatus& status) {
  write_workers(out, status, "worker_cpu_seconds", "counter", "CPU time of the worker's process.",
                [](const RankStatus& rank) { return if_runs(rank, rank.cpu_seconds); });
  write_workers(
      out, status, "worker_resident_bytes", "gauge", "Memory of the worker's process.",
      [](const RankStatus& rank) { return if_runs(rank, static_cast<double>(rank.memory)); });
  write_workers(out, status, "worker_uptime_seconds", "gauge", "Time since the worker began.",
                [](const RankStatus& rank) { return if_runs(rank, rank.seconds); });
  write_workers(out, status, "worker_output_age_seconds", "gauge",
                "Time since the worker's last output.",
                [](const RankStatus& rank) { return rank.output_age; });
  write_workers(out, status, "worker_heartbeat_age_seconds", "gauge",
                "Time since the worker's last heartbeat.",
                [](const RankStatus& rank) { return rank.heartbeat_age; });
  write_workers(out, status, "worker_step", "gauge", "The step in the worker's last heartbeat.",
                [](const RankStatus& rank) { return step_in(rank.progress); });
  write_workers(out, status, "worker_collectives", "counter",
                "Collective calls that the worker has begun in its groups, by ddp.",
                [](const RankStatus& rank) -> std::optional<double> {
                  if (!rank.collectives) return std::nullopt;
                  return if_runs(rank, static_cast<double>(*rank.collectives));
                });
  write_gpus(out, status);
}

}  // namespace

std::string label_value(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\\' || c == '"') quoted += '\\';
    c == '\n' ? quoted.append("\\n") : quoted += c;
  }
  return quoted += '"';
}

std::string metrics_text(const JobStatus& status, const History& history, double now) {
  std::map<std::string, int> workers = {
      {"ended", 0}, {"failed", 0}, {"running", 0}, {"stopped", 0}};
  std::map<std::string, int> nodes;
  for (const NodeStatus& node : status.nodes) {
    const bool answers = node.problem.empty() || !node.ranks.empty();
    ++nodes[answers ? node.state : "no answer"];
    for (const RankStatus& rank : node.ranks) {
      ++workers[workers.contains(rank.state) ? rank.state : "unknown"];
    }
  }
  Writer out;
  write_job(out, status, history, now);
  write_counts(out, "nodes", "Nodes of the job.", "state", nodes);
  write_counts(out, "workers", "Workers of the latest round.", "state", workers);
  write_ranks(out, status);
  return std::move(out).end();
}

}  // namespace ddprun::agent::web
