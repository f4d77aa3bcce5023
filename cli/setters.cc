// SPDX-License-Identifier: Apache-2.0
#include "cli/setters.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/log.h"
#include "cli/rdzv_conf.h"
#include "cli/signal_list.h"

namespace ddprun::cli {
namespace {

constexpr int kMostWorkers = 65'536;
constexpr int kMostNodes = 32'767;  // so that the number of all workers is an int

struct NumaBinding {
  std::string_view name;
  launcher::NumaBinding how;
};
constexpr std::array<NumaBinding, 4> kNumaBindings = {{
    {"node", launcher::NumaBinding::node},
    {"socket", launcher::NumaBinding::socket},
    {"exclusive", launcher::NumaBinding::exclusive},
    {"core-complex", launcher::NumaBinding::core_complex},
}};

}  // namespace

bool set_switch(std::string_view value, bool& target) {
  const std::optional<int> number = parse_count(value, std::numeric_limits<int>::min(), kMost);
  target = number.value_or(0) != 0;  // torchrun reads its variables so
  return number.has_value();
}

Taken set_local_size(std::string_view value, RawOptions& raw) {
  raw.local_size = value;
  return value == "auto" || value == "gpu" || value == "cpu" ||
         parse_count(value, 1, kMostWorkers).has_value();
}

Taken set_nodes(std::string_view value, RawOptions& raw) {
  const size_t colon = value.find(':');
  const auto least = parse_count(value.substr(0, colon), 1, kMostNodes);
  const auto most =
      colon == std::string_view::npos ? least : parse_count(value.substr(colon + 1), 1, kMostNodes);
  if (!least || !most || *least > *most) return false;
  raw.job.min_nodes = *least;
  raw.job.max_nodes = *most;
  return true;
}

Taken set_master_port(std::string_view value, RawOptions& raw) {
  const auto port = parse_count(value, 0, 65'535);
  if (!port) return false;
  raw.master_port = static_cast<std::uint16_t>(*port);
  raw.port_said_by = "--master_port " + std::string(value);
  return true;
}

Taken set_endpoint(std::string_view value, RawOptions& raw) {
  std::optional<HostPort> at = parse_host_port(value);
  if (!at) return false;
  raw.endpoint = true;
  raw.master_addr = std::move(at->host);
  if (!at->port) return true;
  raw.master_port = at->port;
  raw.port_said_by = "--rdzv_endpoint " + std::string(value);
  return true;
}

Taken set_run_id(std::string_view value, RawOptions& raw) {
  raw.job.run_id = value;
  return is_run_id(value);
}

Taken set_backend(std::string_view value, RawOptions& raw) {
  raw.joining_order = value == "c10d";
  if (value == "static" || value == "c10d") return true;
  if (!value.starts_with("etcd")) return false;
  return Taken::refused("'" + std::string(value) +
                        "' is not there, nor needed: give static or c10d, and --rdzv_endpoint "
                        "HOST:PORT with a host of the job or of ddprun serve");
}

Taken set_conf(std::string_view value, RawOptions& raw) {
  const Result<> taken = set_rdzv_conf(value, raw.job);
  return taken ? Taken(true) : Taken::refused(taken.error().message);
}

Taken set_restarts(std::string_view value, RawOptions& raw) {
  const size_t slash = value.find('/');
  const auto restarts = parse_count(value.substr(0, slash), 0, kMost);
  const auto window = slash == std::string_view::npos
                          ? std::chrono::milliseconds(0)
                          : parse_time(value.substr(slash + 1), kShortest);
  if (!restarts || !window) return false;
  raw.job.max_restarts = *restarts;
  raw.job.restart_window = *window;
  return true;
}

Taken set_gpu_bind(std::string_view value, RawOptions& raw) {
  raw.job.gpu_bind = value == "isolate" ? agent::GpuBind::isolate : agent::GpuBind::all;
  return value == "all" || value == "isolate";
}

Taken set_numa_binding(std::string_view value, RawOptions& raw) {
  if (value == "core_complex") value = "core-complex";
  for (const NumaBinding& binding : kNumaBindings) {
    if (binding.name == value) raw.job.numa_binding = binding.how;
  }
  return raw.job.numa_binding && numa_binding_name(*raw.job.numa_binding) == value;
}

std::string_view numa_binding_name(launcher::NumaBinding how) {
  return std::find_if(kNumaBindings.begin(), kNumaBindings.end(),
                      [how](const NumaBinding& binding) { return binding.how == how; })
      ->name;
}

Taken set_store(std::string_view value, RawOptions& raw) {
  raw.job.store = value == "worker" ? agent::StoreHost::worker : agent::StoreHost::agent;
  return value == "agent" || value == "worker";
}

Taken set_prefix(std::string_view value, RawOptions& raw) {
  raw.prefix = value;
  raw.no_prefix = false;
  return true;
}

Taken set_log_level(std::string_view value, RawOptions& raw) {
  const Result<log::Level> level = log::parse_level(value);
  if (level) raw.job.log_level = *level;
  return level.has_value();
}

Taken set_log_dir(std::string_view value, RawOptions& raw) {
  raw.job.log_dir = value;
  return !value.empty();
}

Taken set_events(std::string_view value, RawOptions& raw) {
  raw.job.events_file = value;
  return !value.empty();
}

Taken set_local_rank_style(std::string_view value, RawOptions& raw) {
  raw.job.local_rank_flag = value == "underscore" ? "--local_rank" : "--local-rank";
  return value == "dash" || value == "underscore";
}

Taken set_role(std::string_view value, RawOptions& raw) {
  raw.job.role = value;
  return is_run_id(value);
}

Taken block_signals(std::string_view value, RawOptions& raw) {
  Result<std::vector<int>> signals = parse_signals(value);
  if (!signals) return Taken::refused(signals.error().message);
  raw.job.signals_to_handle = std::move(*signals);
  return true;
}

Taken set_event_handler(std::string_view value, RawOptions&) {
  if (value == "null") return true;  // torchrun's default: no events
  return Taken::refused("'" + std::string(value) +
                        "' is a plug-in of torchrun's Python, which is not here: give --events "
                        "FILE, which gets a JSON object a line");
}

Taken refuse_logs_specs(std::string_view value, RawOptions&) {
  return Taken::refused("'" + std::string(value) +
                        "' is a plug-in of torchrun's Python, which is not here: leave it out, and "
                        "see Output in ddprun --help");
}

Taken set_run_path(std::string_view value, RawOptions&) {
  if (value == "0") return true;
  return Taken::refused(
      "runs a file inside torchrun's Python, which is not here: leave it out, and python3 runs "
      "any program that ends in .py");
}

Taken set_start_method(std::string_view value, RawOptions&) {
  return value == "spawn" || value == "fork" || value == "forkserver";
}

Taken set_nothing(std::string_view, RawOptions&) {
  return true;
}

}  // namespace ddprun::cli
