// SPDX-License-Identifier: Apache-2.0
#include "cli/resolve.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <utility>
#include <vector>

#include "agent/worker/worker_devices.h"
#include "agent/worker/worker_env.h"
#include "base/text.h"
#include "cli/line/secret.h"
#include "cli/line/setters.h"
#include "cli/line/usage_error.h"
#include "cli/line/values.h"
#include "launcher/output/prefix.h"
#include "rendezvous/membership_text.h"

namespace ddprun::cli {
namespace {

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";
constexpr const char* kPrefixTemplate = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE";
constexpr std::uint16_t kDefaultPort = 29'500;
constexpr std::uint16_t kEtcdPort = 2'379;

rendezvous::RoundSpec nodes_of(const agent::JobSpec& job) {
  rendezvous::RoundSpec spec;
  spec.min_nodes = job.min_nodes;
  spec.max_nodes = job.max_nodes;
  return spec;
}

std::string nnodes(const agent::JobSpec& job) {
  return "--nnodes " + rendezvous::nnodes_text(nodes_of(job));
}

Result<> resolve_standalone(agent::JobSpec& job) {
  if (job.max_nodes > 1) {
    return usage_error("--standalone means one node: leave out --standalone or " + nnodes(job));
  }
  job.master_addr = "127.0.0.1";
  job.master_port = 0;
  job.is_host.reset();
  return {};
}

/// Sets ddprun's user of etcd, from "NAME:PASSWORD" as for etcdctl.
void set_etcd_user(std::string_view text, rendezvous::etcd::Servers& etcd) {
  const size_t colon = std::min(text.find(':'), text.size());
  etcd.user = text.substr(0, colon);
  etcd.password = text.substr(std::min(colon + 1, text.size()));
}

Result<> resolve_etcd(RawOptions& raw, Mode mode, const Host& host) {
  const std::string flag = "--rdzv_backend etcd ";
  if (mode == Mode::serve) {
    return usage_error(flag + "elects a node as the master: ddprun serve does not work with it");
  }
  if (!raw.has_endpoint) {
    return usage_error(flag + "needs --rdzv_endpoint HOST[:PORT],... of its servers");
  }
  if (raw.job.run_id == agent::kNoId) {
    return usage_error(flag + "needs --rdzv_id ID, by which etcd tells jobs apart");
  }
  rendezvous::etcd::Servers& etcd = raw.job.etcd.emplace();
  for (rendezvous::Endpoint server : raw.endpoints) {
    if (server.host.empty()) return usage_error("--rdzv_endpoint: a server of etcd has no host");
    if (server.port == 0) server.port = kEtcdPort;
    etcd.servers.push_back(std::move(server));
  }
  if (host.etcd_user) set_etcd_user(host.etcd_user->view(), etcd);
  if (raw.etcd_conf.https) {
    auto tls = rendezvous::etcd::TlsClient::load(raw.etcd_conf.files);
    if (!tls) return tls.error();
    etcd.tls = std::move(*tls);
  }
  raw.job.master_addr.clear();
  raw.job.master_port = 0;
  return {};
}

/// Refuses a link-local address without its interface. The kernel would say "Invalid argument" when
/// the other nodes wait already.
Result<> check_link_local(const RawOptions& raw, const Host& host) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const rendezvous::Endpoint& server : raw.endpoints) {
    given.emplace_back("--rdzv_endpoint", server.host);
  }
  given.emplace_back("--master_addr", raw.master_addr.value_or(""));
  given.emplace_back("--local_addr", raw.job.local_addr);
  std::erase_if(given, [](const auto& one) { return !is_link_local(one.second); });
  if (given.empty()) return {};
  const std::vector<std::string> known = host.link_local_interfaces();
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  for (const auto& [flag, address] : given) {
    const size_t percent = std::min(address.find('%'), address.size());
    const std::string interface = address.substr(std::min(percent + 1, address.size()));
    if (parse_count(interface, 1, INT_MAX) || std::ranges::count(known, interface) > 0) continue;
    return usage_error(flag + " " + address +
                       ": a link-local address needs the interface of this host that leads there, "
                       "as in " +
                       address.substr(0, percent) + "%" + (known.empty() ? "eth0" : known.front()) +
                       " (it has " + (known.empty() ? "none with such an address" : names) + ")");
  }
  return {};
}

Result<> resolve_addr(RawOptions& raw, Mode mode) {
  agent::JobSpec& job = raw.job;
  if (raw.master_addr) {
    job.master_addr = *raw.master_addr;
    if (!job.master_addr.empty() || mode == Mode::serve) return {};
    return usage_error(
        "--rdzv_endpoint :" + std::to_string(*raw.master_port) +
        " names no host: give HOST:PORT (only ddprun serve listens at every address)");
  }
  if (mode == Mode::serve) {
    return usage_error("ddprun serve needs --rdzv_endpoint HOST:PORT, or :PORT for every address");
  }
  if (job.max_nodes == 1) return {};
  return usage_error(nnodes(job) + " needs --rdzv_endpoint HOST[:PORT], the same on every node");
}

Result<> resolve_port(RawOptions& raw, Mode mode) {
  agent::JobSpec& job = raw.job;
  const bool fixed = job.max_nodes > 1 || mode == Mode::serve;  // other nodes must know it
  job.master_port = raw.master_port.value_or(fixed || raw.has_endpoint ? kDefaultPort : 0);
  if (!fixed || job.master_port != 0) return {};
  return usage_error(
      raw.port_source +
      " means any free port, which other nodes cannot know: give a port from 1 to 65535");
}

/// The node's GPUs, as CUDA_VISIBLE_DEVICES names them. `counted`: they decide the number of
/// workers, so GPUs that this host lacks must not count. `exact`: their number matters.
launcher::VisibleDevices node_devices(const char* visible, bool counted, bool exact,
                                      const Host& host) {
  using launcher::DeviceSearch;
  if (visible == nullptr) {
    return {host.devices(exact ? DeviceSearch::exact : DeviceSearch::quick), ""};
  }
  launcher::VisibleDevices listed = launcher::parse_visible_devices(visible);
  if (!counted || listed.names.empty()) return listed;
  const size_t gpus = host.devices(DeviceSearch::quick).size();
  return launcher::present_devices(std::move(listed), gpus);
}

int count_workers(LocalSize size, int gpus, const Host& host) {
  using Kind = LocalSize::Kind;
  if (size.kind == Kind::number) return size.number;
  const bool by_gpus = size.kind == Kind::automatic || size.kind == Kind::gpu_or_one;
  if (size.kind == Kind::gpu || (by_gpus && gpus > 0)) return gpus;
  if (size.kind == Kind::gpu_or_one) return 1;
  return static_cast<int>(host.cpus().size());
}

/// The NUMA nodes closest to each worker's GPUs.
std::vector<std::vector<int>> nodes_near(const agent::JobSpec& job, const Host& host) {
  std::vector<std::vector<int>> near;
  const std::vector<std::optional<int>> known = host.gpu_nodes(job.devices);
  for (int local_rank = 0; local_rank < job.local_size; ++local_rank) {
    std::vector<int>& nodes = near.emplace_back();
    for (const std::string& device : agent::devices_of(job, local_rank)) {
      for (size_t i = 0; i < known.size(); ++i) {
        if (job.devices[i] == device && known[i]) nodes.push_back(*known[i]);
      }
    }
  }
  return near;
}

Result<std::vector<launcher::Binding>> decide_bindings(const agent::JobSpec& job,
                                                       const Host& host) {
  Result<launcher::Topology> topology = host.topology();
  if (!topology) return topology.error();
  return launcher::bind_workers(*job.numa_binding, *topology, nodes_near(job, host));
}

/// The highest local rank that a flag about output names, with the flag; -1: none.
std::pair<std::string, int> highest_named_rank(const launcher::LogSpec& logs) {
  std::pair<std::string, int> highest = {"", -1};
  const auto look = [&highest](const char* flag, int local_rank) {
    if (local_rank > highest.second) highest = {flag, local_rank};
  };
  for (const auto& [local_rank, mask] : logs.redirects.named) look("--redirects", local_rank);
  for (const auto& [local_rank, mask] : logs.tees.named) look("--tee", local_rank);
  if (!logs.shown) return highest;
  for (const int local_rank : *logs.shown) look("--local_ranks_filter", local_rank);
  return highest;
}

/// If this variable is set, torchrun leaves the store to rank 0.
void resolve_store(RawOptions& raw, const Host& host) {
  const char* unshared =
      agent::find_variable(host.environment, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE");
  if (unshared == nullptr || std::string_view(unshared) != "1" || raw.given.contains("store"))
    return;
  raw.job.store = agent::StoreHost::worker;
}

}  // namespace

Result<> resolve_rendezvous(RawOptions& raw, Mode mode, const Host& host) {
  agent::JobSpec& job = raw.job;
  resolve_store(raw, host);
  if (raw.ignore_node_rank) job.node_rank.reset();
  if (job.node_rank.value_or(0) >= job.max_nodes) {
    return usage_error(rendezvous::out_of_range(*job.node_rank, nodes_of(job)));
  }
  if (job.lease <= job.heartbeat) {
    return usage_error("--lease " + duration_text(job.lease) +
                       " has to be longer than --heartbeat_interval " +
                       duration_text(job.heartbeat));
  }
  if (const Result<> checked = check_etcd_conf(raw.etcd_conf, raw.by_etcd); !checked)
    return checked;
  if (raw.standalone) return resolve_standalone(job);
  if (const Result<> checked = check_link_local(raw, host); !checked) return checked;
  if (raw.by_etcd) return resolve_etcd(raw, mode, host);
  if (raw.endpoints.size() > 1) {
    return usage_error("--rdzv_endpoint names " + std::to_string(raw.endpoints.size()) +
                       " servers, which only --rdzv_backend etcd has");
  }
  if (const Result<> addr = resolve_addr(raw, mode); !addr) return addr.error();
  if (mode == Mode::serve) job.is_host = true;
  return resolve_port(raw, mode);
}

Result<Secret> given_secret(const RawOptions& raw, const Host& host) {
  if (raw.secret_file.empty() && !host.secret) return Secret();
  Result<Secret> secret = raw.secret_file.empty()
                              ? decode_secret(host.secret->view(), kSecretVariable)
                              : host.read_secret(raw.secret_file);
  if (host.secret) host.secret->wipe();
  return secret;
}

Result<> check_tunnel(const agent::JobSpec& job) {
  if (job.store != agent::StoreHost::tunnel || job.max_nodes == 1 || job.security) return {};
  return usage_error(
      "--store tunnel encrypts with the job's secret, and there is none: give every node one "
      "(--secret_file, DDPRUN_SECRET)");
}

/// Errors: why this node has no sealed secret.
Result<> use_sealed_secret(agent::JobSpec& job, const Host& host) {
  const Result<Secret> secret = new_secret();
  if (!secret) return secret.error();
  Result<std::string> sealed = host.seal(*secret, job.run_id);
  if (!sealed) return sealed.error();
  auto security = rendezvous::Security::of_job(*secret, job.run_id);
  if (!security) return security.error();
  job.security = std::move(*security);
  job.sealed_secret = std::move(*sealed);
  return {};
}

Result<std::string> resolve_secret(RawOptions& raw, const Host& host) {
  const Result<Secret> secret = given_secret(raw, host);
  if (!secret) return secret.error();
  std::string note;
  if (*secret) {
    auto security = rendezvous::Security::of_job(*secret, raw.job.run_id);
    if (!security) return security.error();
    raw.job.security = std::move(*security);
  } else if (raw.in_slurm && raw.job.max_nodes > 1) {
    const Result<> sealed = use_sealed_secret(raw.job, host);
    note = sealed ? "the job has a secret (munge)"
                  : "the job has no secret (" + sealed.error().message + ")";
  }
  const Result<> tunnel = check_tunnel(raw.job);
  if (!tunnel) return tunnel.error();
  return note;
}

Result<> resolve_workers(RawOptions& raw, const Host& host) {
  agent::JobSpec& job = raw.job;
  const LocalSize::Kind kind = raw.local_size.kind;
  const bool isolate = job.gpu_bind == agent::GpuBind::isolate;
  if (isolate && job.virtual_local_rank) {
    return usage_error(
        "--virtual_local_rank gives each worker one GPU, and --gpu_bind isolate its whole share: "
        "give one of the two");
  }
  const bool divided = isolate || job.virtual_local_rank;  // no two workers share a GPU
  const bool is_counted = kind != LocalSize::Kind::number && kind != LocalSize::Kind::cpu;
  const char* visible = agent::find_variable(host.environment, kVisibleDevices);
  launcher::VisibleDevices devices = node_devices(visible, is_counted, divided || is_counted, host);
  job.devices = std::move(devices.names);
  const int gpus = static_cast<int>(job.devices.size());
  const std::string list = visible ? std::string(kVisibleDevices) + "=" + printable(visible) : "";
  const std::string why = devices.problem.empty() ? list : list + ": " + devices.problem;
  const std::string because = why.empty() ? "" : " (" + why + ")";

  if (kind == LocalSize::Kind::gpu && gpus == 0) {
    return usage_error(
        "--nproc_per_node gpu needs a GPU, and " +
        (visible ? "CUDA sees no GPU of this host" + because : "this host has none") +
        ": give a number of workers, or gpu-or-1");
  }
  job.local_size = count_workers(raw.local_size, gpus, host);
  if (is_counted && !devices.problem.empty()) {
    job.warnings.push_back(why + "; CUDA sees " + count_text(gpus, "GPU") + ", so this node has " +
                           count_text(job.local_size, "worker"));
  }
  if (divided && gpus < job.local_size) {
    return usage_error(
        std::string(isolate ? "--gpu_bind isolate" : "--virtual_local_rank") +
        " needs at least one GPU per worker: " + count_text(job.local_size, "worker") + ", " +
        count_text(gpus, "GPU") + " on this host" + because);
  }
  return {};
}

/// Does not check a job of several nodes: they may share a command line, but differ in workers.
Result<> check_logs(const agent::JobSpec& job) {
  const auto [flag, local_rank] = highest_named_rank(job.logs);
  if (job.max_nodes > 1 || local_rank < job.local_size) return {};
  return usage_error(flag + " names local rank " + std::to_string(local_rank) +
                     ", but this node has " + count_text(job.local_size, "worker") +
                     ", and local ranks begin with 0");
}

Result<> check_debugged_rank(const agent::JobSpec& job, const Host& host) {
  if (!job.debugged_rank) return {};
  const std::string flag = "--pdb " + std::to_string(*job.debugged_rank);
  if (!host.has_terminal()) {
    return usage_error(flag + " needs a terminal, and stdin or stdout of ddprun is not one");
  }
  if (job.max_nodes > 1 || *job.debugged_rank < job.local_size) return {};
  return usage_error(flag + ": this job has " + count_text(job.local_size, "worker") +
                     ", and ranks begin with 0");
}

Result<> resolve_bindings(RawOptions& raw, const Host& host) {
  agent::JobSpec& job = raw.job;
  if (job.numa_binding) {
    Result<std::vector<launcher::Binding>> bindings = decide_bindings(job, host);
    if (!bindings) {
      return std::move(bindings.error())
          .in("--numa_binding " + std::string(numa_binding_name(*job.numa_binding)));
    }
    job.bindings = std::move(*bindings);
  } else if (job.report_bindings) {
    job.bindings.assign(static_cast<size_t>(job.local_size), {host.cpus(), {}});
  }
  return {};
}

Result<> resolve_prefix(RawOptions& raw, const Host& host) {
  if (raw.no_prefix) return {};
  const char* variable = agent::find_variable(host.environment, kPrefixTemplate);
  const bool has_variable = variable != nullptr && *variable != '\0';
  if (raw.prefix || has_variable) {
    const std::string text = raw.prefix ? *raw.prefix : variable;
    Result<std::string> sample = launcher::expand_prefix(text, {});
    if (!sample) {
      return std::move(sample.error()).in(raw.prefix ? "--prefix" : kPrefixTemplate);
    }
    raw.job.prefix = text;
  } else if (raw.job.local_size > 1 || raw.job.max_nodes > 1) {
    raw.job.prefix = launcher::kDefaultPrefix;
  }
  return {};
}

}  // namespace ddprun::cli
