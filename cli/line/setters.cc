// SPDX-License-Identifier: Apache-2.0
#include "cli/line/setters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/progress/progress_pattern.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/line/rdzv_conf.h"
#include "cli/line/usage_error.h"
#include "cli/line/values.h"
#include "launcher/process/exit_status.h"
#include "launcher/process/signals.h"

namespace ddprun::cli {
namespace {

constexpr int kFirstRealTime = 32;  // the standard signals are below it (signal(7))

bool can_be_handled(int signal) {
  const auto is_in = [signal](const auto& signals) {
    return std::find(signals.begin(), signals.end(), signal) != signals.end();
  };
  return is_in(launcher::kStopSignals) || is_in(launcher::kForwardedSignals) ||
         is_in(launcher::kOtherSignals);
}

/// Why a signal cannot be handled.
const char* reason_against(int signal) {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
      return ": no process can catch it";
    case SIGCHLD:
    case SIGCONT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGURG:
    case SIGWINCH:
      return ": it does not ask a process to end";
    default:
      return ": it reports an error of the process itself";
  }
}

/// "SIGTERM" for "term".
std::string canonical(std::string_view word) {
  std::string name(word);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name.starts_with("SIG") ? name : "SIG" + name;
}

std::optional<int> number_of(const std::string& name) {
  for (int signal = 1; signal < kFirstRealTime; ++signal) {
    if (launcher::signal_name(signal) == name) return signal;
  }
  if (name == "SIGIO") return SIGIO;  // another name of SIGPOLL
  return std::nullopt;
}

Error unknown_signal(std::string_view word) {
  std::vector<std::string> names;
  for (int signal = 1; signal < kFirstRealTime; ++signal) {
    if (can_be_handled(signal)) names.push_back(launcher::signal_name(signal));
  }
  return usage_error(
      "got the unknown signal '" + printable(word) + "'" +
      did_you_mean(suggest(canonical(word), names), "it takes names such as SIGTERM,SIGUSR1"));
}

}  // namespace

Result<std::vector<int>> parse_signals(std::string_view text) {
  std::vector<int> signals;
  for (const std::string_view part : split(text)) {
    const std::string_view word = trimmed(part);
    const std::string name = canonical(word);
    const std::optional<int> signal = number_of(name);
    if (!signal) return unknown_signal(word);
    if (!can_be_handled(*signal)) {
      return usage_error("cannot handle " + name + reason_against(*signal));
    }
    if (std::find(signals.begin(), signals.end(), *signal) == signals.end()) {
      signals.push_back(*signal);
    }
  }
  return signals;
}

namespace {

using launcher::NumaBinding;

constexpr int kMostWorkers = 65'536;
constexpr int kMostNodes = 32'767;  // so that the number of all workers is an int

/// A name that a flag accepts as its value, and its meaning.
template <class T>
struct Choice {
  std::string_view name;
  T meaning;
};

template <class T, size_t kSize>
std::optional<T> find_choice(std::string_view name, const std::array<Choice<T>, kSize>& choices) {
  for (const Choice<T>& choice : choices) {
    if (choice.name == name) return choice.meaning;
  }
  return std::nullopt;
}

constexpr std::array kLocalSizeKinds = std::to_array<Choice<LocalSize::Kind>>({
    {"auto", LocalSize::Kind::automatic},
    {"gpu", LocalSize::Kind::gpu},
    {"cpu", LocalSize::Kind::cpu},
    {"gpu-or-1", LocalSize::Kind::gpu_or_one},
});
constexpr std::array kGpuBinds = std::to_array<Choice<agent::GpuBind>>({
    {"all", agent::GpuBind::all},
    {"isolate", agent::GpuBind::isolate},
});
constexpr std::array kNumaBindings = std::to_array<Choice<NumaBinding>>({
    {"node", NumaBinding::node},
    {"socket", NumaBinding::socket},
    {"exclusive", NumaBinding::exclusive},
    {"core-complex", NumaBinding::core_complex},
    {"core_complex", NumaBinding::core_complex},
});
constexpr std::array kStoreHosts = std::to_array<Choice<agent::StoreHost>>({
    {"agent", agent::StoreHost::agent},
    {"worker", agent::StoreHost::worker},
    {"tunnel", agent::StoreHost::tunnel},
});
constexpr std::array kMpis = std::to_array<Choice<agent::Mpi>>({
    {"none", agent::Mpi::none},
    {"pmi1", agent::Mpi::pmi1},
    {"pmix", agent::Mpi::pmix},
    {"both", agent::Mpi::both},
});
constexpr std::array kTtys = std::to_array<Choice<agent::Tty>>({
    {"auto", agent::Tty::automatic},
    {"never", agent::Tty::never},
    {"always", agent::Tty::always},
});
constexpr std::array kColours = std::to_array<Choice<Colour>>({
    {"auto", Colour::automatic},
    {"never", Colour::never},
    {"always", Colour::always},
});
constexpr std::array kLocalRankFlags = std::to_array<Choice<const char*>>({
    {"dash", "--local-rank"},
    {"underscore", "--local_rank"},
});
constexpr std::array kBackendsIgnoreNodeRank = std::to_array<Choice<bool>>({
    {"static", false},
    {"c10d", true},
    {"etcd", true},
});

}  // namespace

SetResult set_local_size(std::string_view value, RawOptions& raw) {
  if (assign(find_choice(value, kLocalSizeKinds), raw.local_size.kind)) return true;
  raw.local_size.kind = LocalSize::Kind::number;
  return assign(parse_count(value, 1, kMostWorkers), raw.local_size.number);
}

SetResult set_nodes(std::string_view value, RawOptions& raw) {
  const size_t colon = value.find(':');
  const auto least = parse_count(value.substr(0, colon), 1, kMostNodes);
  const auto most =
      colon == std::string_view::npos ? least : parse_count(value.substr(colon + 1), 1, kMostNodes);
  if (!least || !most || *least > *most) return false;
  raw.job.min_nodes = *least;
  raw.job.max_nodes = *most;
  return true;
}

SetResult set_master_port(std::string_view value, RawOptions& raw) {
  const auto port = parse_count(value, 0, 65'535);
  if (!port) return false;
  raw.master_port = static_cast<std::uint16_t>(*port);
  raw.port_source = "--master_port " + std::string(value);
  return true;
}

SetResult set_endpoint(std::string_view value, RawOptions& raw) {
  raw.endpoints.clear();
  for (const std::string_view one : split(value)) {
    const std::optional<HostPort> server = parse_host_port(one);
    if (!server) return false;
    raw.endpoints.push_back({server->host, server->port.value_or(0)});
  }
  std::optional<HostPort> endpoint = parse_host_port(split(value).front());
  raw.has_endpoint = true;
  raw.master_addr = std::move(endpoint->host);
  if (!endpoint->port) return true;
  raw.master_port = endpoint->port;
  raw.port_source = "--rdzv_endpoint " + std::string(value);
  return true;
}

SetResult set_run_id(std::string_view value, RawOptions& raw) {
  raw.job.run_id = value;
  return is_run_id(value);
}

SetResult set_backend(std::string_view value, RawOptions& raw) {
  raw.by_etcd = value == "etcd";
  if (assign(find_choice(value, kBackendsIgnoreNodeRank), raw.ignore_node_rank)) return true;
  if (!value.starts_with("etcd")) return false;
  return SetResult::refused("'" + std::string(value) +
                            "' is not supported: give etcd, which needs etcd 3.4 or later, or "
                            "static or c10d, which need no server");
}

SetResult set_conf(std::string_view value, RawOptions& raw) {
  raw.rdzv_conf = value;
  const Result<> set = set_rdzv_conf(value, raw.job, raw.etcd_conf);
  return set ? SetResult(true) : SetResult::refused(set.error().message);
}

SetResult set_restarts(std::string_view value, RawOptions& raw) {
  const size_t slash = value.find('/');
  const auto restarts = parse_count(value.substr(0, slash), 0, kMost);
  const auto window = slash == std::string_view::npos
                          ? std::chrono::milliseconds(0)
                          : parse_time(value.substr(slash + 1), kShortestTime);
  if (!restarts || !window) return false;
  raw.job.max_restarts = *restarts;
  raw.job.restart_window = *window;
  return true;
}

SetResult set_progress_pattern(std::string_view value, RawOptions& raw) {
  raw.job.progress_pattern = value;
  if (value.empty()) return false;
  const Result<agent::ProgressPattern> pattern = agent::ProgressPattern::parse(std::string(value));
  return pattern ? SetResult(true) : SetResult::refused(pattern.error().message);
}

SetResult set_gpu_bind(std::string_view value, RawOptions& raw) {
  return assign(find_choice(value, kGpuBinds), raw.job.gpu_bind);
}

SetResult set_numa_binding(std::string_view value, RawOptions& raw) {
  return assign(find_choice(value, kNumaBindings), raw.job.numa_binding);
}

std::string_view numa_binding_name(NumaBinding how) {
  return std::find_if(kNumaBindings.begin(), kNumaBindings.end(),
                      [how](const Choice<NumaBinding>& choice) { return choice.meaning == how; })
      ->name;
}

SetResult set_hosts(std::string_view value, RawOptions& raw) {
  Result<remote::HostNames> hosts = remote::parse_host_list(value);
  if (!hosts) return SetResult::refused(hosts.error().message);
  raw.remote.hosts = std::move(*hosts);
  return true;
}

SetResult set_exported(std::string_view value, RawOptions& raw) {
  raw.remote.exported.clear();
  for (const std::string_view word : split(value)) {
    const std::string_view name = trimmed(word);
    if (name.empty() || name.find('=') != std::string_view::npos) return false;
    raw.remote.exported.emplace_back(name);
  }
  return true;
}

SetResult set_mpi(std::string_view value, RawOptions& raw) {
  raw.mpi.reset();
  return value == "auto" || assign(find_choice(value, kMpis), raw.mpi);
}

SetResult set_store(std::string_view value, RawOptions& raw) {
  return assign(find_choice(value, kStoreHosts), raw.job.store);
}

SetResult set_deadline_signal(std::string_view value, RawOptions& raw) {
  raw.deadline_signal.reset();
  if (value == "none") return true;
  DeadlineSignal given;
  const size_t at = std::min(value.find('@'), value.size());
  const auto signals = parse_signals(value.substr(0, at));
  if (!signals) return SetResult::refused(signals.error().message);
  if (signals->size() != 1) return false;
  given.signal = signals->front();
  if (at < value.size() && !assign(parse_time(value.substr(at + 1)), given.notice)) return false;
  raw.deadline_signal = given;
  return true;
}

SetResult set_preload(std::string_view value, RawOptions& raw) {
  return assign(parse_modules(value), raw.job.preload);
}

SetResult set_prefix(std::string_view value, RawOptions& raw) {
  raw.prefix = value;
  raw.no_prefix = false;
  return true;
}

SetResult set_tty(std::string_view value, RawOptions& raw) {
  return assign(find_choice(value, kTtys), raw.job.tty);
}

SetResult set_colour_choice(std::string_view value, RawOptions& raw) {
  return assign(find_choice(value, kColours), raw.job.colour);
}

SetResult set_log_level(std::string_view value, RawOptions& raw) {
  const Result<log::Level> level = log::parse_level(value);
  if (level) raw.job.log_level = *level;
  return level.has_value();
}

SetResult set_log_format(std::string_view value, RawOptions& raw) {
  const Result<log::Format> format = log::parse_format(value);
  if (format) raw.job.log_format = *format;
  return format.has_value();
}

SetResult set_quiet(std::string_view value, RawOptions& raw) {
  const std::optional<bool> quiet = parse_switch(value);
  if (quiet.value_or(false)) raw.job.log_level = log::Level::error;
  return quiet.has_value();
}

SetResult set_log_dir(std::string_view value, RawOptions& raw) {
  raw.job.log_dir = value;
  return !value.empty();
}

SetResult set_events(std::string_view value, RawOptions& raw) {
  raw.job.events_file = value;
  if (value == "-") return SetResult::refused("- names no file: give /dev/stdout or /dev/stderr");
  return !value.empty();
}

SetResult set_web(std::string_view value, RawOptions& raw) {
  raw.job.web = rendezvous::Endpoint{"127.0.0.1", 0};
  if (value == "auto") return true;
  if (const auto port = parse_count(value, 0, UINT16_MAX)) {
    raw.job.web->port = static_cast<std::uint16_t>(*port);
    return true;
  }
  const auto given = parse_host_port(value);
  if (!given || !given->port || !parse_address(given->host)) return false;
  raw.job.web = rendezvous::Endpoint{given->host, *given->port};
  return true;
}

SetResult set_local_rank_style(std::string_view value, RawOptions& raw) {
  return assign(find_choice(value, kLocalRankFlags), raw.job.local_rank_flag);
}

SetResult set_role(std::string_view value, RawOptions& raw) {
  raw.job.role = value;
  return is_run_id(value);
}

SetResult set_signals(std::string_view value, RawOptions& raw) {
  Result<std::vector<int>> signals = parse_signals(value);
  if (!signals) return SetResult::refused(signals.error().message);
  raw.job.signals_to_handle = std::move(*signals);
  return true;
}

SetResult set_event_handler(std::string_view value, RawOptions&) {
  if (value == "null") return true;  // torchrun's default: no events
  return SetResult::refused("'" + std::string(value) +
                            "' is a Python plug-in of torchrun, which ddprun does not load: give "
                            "--events FILE, which gets a JSON object per line");
}

SetResult set_logs_specs(std::string_view value, RawOptions&) {
  if (value == "default") return true;  // torchrun's own
  return SetResult::refused("'" + std::string(value) +
                            "' is a Python plug-in of torchrun, which ddprun does not load: leave "
                            "it out, and see Output in ddprun --help");
}

SetResult set_start_method(std::string_view value, RawOptions&) {
  return value == "spawn" || value == "fork" || value == "forkserver";
}

SetResult set_nothing(std::string_view, RawOptions&) {
  return true;
}

}  // namespace ddprun::cli
