// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_job.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/secret.h"
#include "base/text.h"
#include "cli/line/config.h"
#include "cli/line/flags.h"
#include "cli/line/secret.h"
#include "cli/line/usage_error.h"
#include "cli/resolve.h"
#include "engine/allocation.h"
#include "engine/host_list.h"

namespace ddprun::cli {
namespace {

using remote::HostNames;
using remote::Starter;
using remote::Words;

/// Variables that agents and workers on all hosts get.
constexpr std::array<std::string_view, 12> kExported = {
    "PATH",   "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHON_EXEC", "VIRTUAL_ENV", "CUDA_*",
    "NCCL_*", "GLOO_*",          "TORCH_*",    "OMP_*",       "PET_*",       "DDPRUN_*"};

/// Flags that are not passed on unchanged.
constexpr auto kOwnFlags = std::to_array<std::string_view>(
    {"hosts", "hostfile", "ssh", "export", "dry_run", "nnodes", "engine", "rdzv_conf", "node_rank",
     "requeue", "web", "config"});

template <class Names>
bool has(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::string_view variable_name(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

Result<HostNames> hosts_of(const RemoteOptions& options, const Host& host) {
  if (options.host_file.empty()) return *options.hosts;
  if (options.hosts) return usage_error("--hosts and --hostfile: give one of the two");
  const std::optional<std::string> text = host.read_file(options.host_file);
  if (!text) return usage_error("--hostfile " + options.host_file + ": cannot be read");
  Result<HostNames> hosts = remote::parse_host_file(*text);
  if (!hosts) return Error(hosts.error()).in("--hostfile " + options.host_file);
  return hosts;
}

Result<> check(const RawOptions& raw, const HostNames& hosts, const Words& command) {
  if (command.empty() && !raw.doctor)
    return usage_error("no program to run on the hosts; see ddprun --help");
  if (raw.standalone) return usage_error("--standalone means one node: leave out the hosts");
  if (raw.job.debugged_rank) {
    return usage_error("--pdb: the hosts have no terminal; run ddprun on each node instead");
  }
  if (raw.requeue && !raw.remote.by_srun())
    return usage_error("--requeue does not work with --hosts");
  if (raw.given.contains("node_rank")) {
    return usage_error("--node_rank: the ranks are the order of the hosts; leave it out");
  }
  const int count = static_cast<int>(hosts.size());
  if (raw.given.contains("nnodes") && raw.job.min_nodes > count) {
    return usage_error("--nnodes needs " + std::to_string(raw.job.min_nodes) + " hosts, and " +
                       std::to_string(count) + " are named");
  }
  if (count > 1 && remote::is_loopback(hosts.front().name)) {
    return usage_error("'" + hosts.front().name +
                       "' hosts the rendezvous, and the other hosts do not reach it by this name: "
                       "give a name that they know");
  }
  return {};
}

Result<Words> exported(const RawOptions& raw, const Host& host) {
  Words variables;
  for (const std::string& pattern : raw.remote.exported) {
    const bool is_set =
        std::any_of(host.environment.begin(), host.environment.end(),
                    [&](const auto& v) { return matches(pattern, variable_name(v)); });
    if (!is_set && !pattern.ends_with('*')) return usage_error("--export " + pattern + ": not set");
  }
  for (const std::string& variable : host.environment) {
    const auto covers = [name = variable_name(variable)](std::string_view pattern) {
      return matches(pattern, name);
    };
    // srun passes on the environment itself, and the batch script's devices are not the step's.
    const bool by_default =
        !raw.remote.by_srun() && std::any_of(kExported.begin(), kExported.end(), covers);
    if (by_default || std::any_of(raw.remote.exported.begin(), raw.remote.exported.end(), covers)) {
      variables.push_back(variable);
    }
  }
  return variables;
}

/// The command lines of the agents.
class Arguments {
 public:
  Arguments(const RawOptions& raw, const HostNames& hosts) : raw_(raw), hosts_(hosts) {
    const std::string random = random_name();
    id_ = random.substr(0, 8);
    ports_ = raw.remote.ports.empty() ? engine::ports_of(random.substr(8)) : raw.remote.ports;
    if (raw.master_port) ports_ = {*raw.master_port};
  }

  Words of(size_t host) const {
    Words words = common();
    if (std::ssize(hosts_) <= max_nodes()) add(words, "node_rank", std::to_string(host));
    if (hosts_[host].slots && !gives("nproc_per_node")) {
      add(words, "nproc_per_node", std::to_string(*hosts_[host].slots));
    }
    if (const std::string conf = rdzv_conf(host); !conf.empty()) add(words, "rdzv_conf", conf);
    if (raw_.job.web && host == 0) add(words, "web", raw_.job.web->text());
    return words;
  }

 private:
  static void add(Words& words, const std::string& flag, const std::string& value) {
    words.push_back("--" + flag + "=" + value);
  }

  bool gives(std::string_view flag) const { return raw_.given.contains(flag); }

  int max_nodes() const {
    return gives("nnodes") ? raw_.job.max_nodes : static_cast<int>(hosts_.size());
  }

  bool decides_endpoint() const {
    return max_nodes() > 1 && !gives("rdzv_endpoint") && !gives("master_addr");
  }

  /// The rank says who hosts the rendezvous: a host may see another address for its name than the
  /// others do.
  std::string rdzv_conf(size_t host) const {
    std::string conf = raw_.rdzv_conf;
    if (!decides_endpoint() || raw_.job.is_host) return conf;
    conf += std::string(conf.empty() ? "" : ",") + "is_host=" + (host == 0 ? "true" : "false");
    if (ports_.size() > 1) conf += "," + more_ports_text({ports_.begin() + 1, ports_.end()});
    return conf;
  }

  Words common() const {
    Words words;
    if (raw_.doctor) words.emplace_back("doctor");
    const int least = gives("nnodes") ? raw_.job.min_nodes : max_nodes();
    add(words, "nnodes", std::to_string(least) + ":" + std::to_string(max_nodes()));
    add(words, "config", std::string(kNoConfig));  // flags pass on its values
    if (!raw_.remote.by_srun()) add(words, "engine", "none");
    if (!gives("shutdown_timeout")) {  // the agents do not know the engine's
      add(words, "shutdown_timeout", std::to_string(raw_.job.stop_grace.count()) + "ms");
    }
    if (raw_.local_size.kind == LocalSize::Kind::gpu_or_one && !gives("nproc_per_node")) {
      add(words, "nproc_per_node", "gpu-or-1");
    }
    if (!gives("rdzv_id")) add(words, "rdzv_id", id_);
    if (decides_endpoint()) {
      const std::string master(remote::without_user(hosts_.front().name));
      add(words, "rdzv_endpoint", endpoint_text(master, ports_.front()));
    }
    return words;
  }

  const RawOptions& raw_;
  const HostNames& hosts_;
  std::string id_;
  std::vector<std::uint16_t> ports_;  // the master takes the first free one
};

/// The options to pass on, with their values in the same word: a value may look like a flag. Only
/// ssh encrypts the order, so other agents read the secret's file.
Words kept_options(const Words& options, Starter starter) {
  Words words;
  for (size_t i = 0; i < options.size(); ++i) {
    const Flag& flag = *find_flag(options[i]);
    std::string word = options[i];
    if (!flag.value.empty()) word += "=" + options[++i];
    const bool is_sent = flag.name == "secret_file" && starter == Starter::ssh;
    if (!has(kOwnFlags, flag.name) && !is_sent) words.push_back(std::move(word));
  }
  return words;
}

/// The secret that the agents get with their orders.
Result<std::shared_ptr<const Secret>> secret_to_send(const RawOptions& raw, const Host& host) {
  using Shared = std::shared_ptr<const Secret>;
  if (raw.remote.starter != Starter::ssh) {
    if (!host.secret || !raw.secret_file.empty()) return Shared();
    return usage_error(
        "only ssh passes DDPRUN_SECRET on without showing it: write the secret to a file that each "
        "host "
        "has, and name it by --secret_file");
  }
  const Result<Secret> secret = given_secret(raw, host);
  if (!secret) return secret.error();
  return *secret ? Shared(std::make_shared<const Secret>(secret_text(*secret))) : Shared();
}

/// Whether `name` is this host. Its agent needs no ssh.
bool is_own(const std::string& name, const Host& host) {
  return name.find('@') == std::string::npos &&
         (remote::is_loopback(name) || engine::is_same_host(name, host.name));
}

/// The commands that start the agents.
class Starters {
 public:
  Starters(const RemoteOptions& options, const Host& host)
      : options_(options), host_(host), own_path_(host.executable()) {}

  /// Errors: not_found (there is no ssh).
  Result<> set(remote::HostSpec& spec) {
    if (!options_.by_srun() && is_own(spec.name, host_)) {
      spec.starter = remote::local_command(own_path_);
      spec.program = own_path_;
      return {};
    }
    spec.starter = command(spec.name);
    if (program_.empty()) {
      Result<std::string> program = host_.find_program(spec.starter.front());
      if (!program) return no_starter(spec.starter.front(), program.error());
      program_ = std::move(*program);
    }
    spec.program = program_;
    return {};
  }

 private:
  /// An engine's program is usually missing inside containers.
  Error no_starter(const std::string& name, Error error) const {
    // The user did not type the name, so the message suggests no other spelling.
    if (error.code == Errc::not_found) error.message = "cannot run " + name + ": not found in PATH";
    error.message += options_.starter == Starter::ssh
                         ? "; it starts the agents: install it here"
                         : "; it starts the agents: have it in this container, or start ddprun "
                           "on every node by it from outside";
    return error;
  }

  Words command(const std::string& name) const {
    switch (options_.starter) {
      case Starter::srun:
        return remote::srun_command(name, own_path_);
      case Starter::blaunch:
        return remote::blaunch_command(name, own_path_);
      case Starter::qrsh:
        return remote::qrsh_command(name, own_path_);
      case Starter::flux:
        return remote::flux_command(name, own_path_);
      case Starter::ssh:
        break;
    }
    return remote::ssh_command(options_.ssh, name, own_path_);
  }

  const RemoteOptions& options_;
  const Host& host_;
  std::string own_path_;
  std::string program_;  // the starter's path; empty: not looked up yet
};

}  // namespace

Result<remote::Job> remote_job(const RawOptions& raw, const std::vector<std::string>& options,
                               const std::vector<std::string>& command, const Host& host) {
  const Result<HostNames> hosts = hosts_of(raw.remote, host);
  if (!hosts) return hosts.error();
  if (const Result<> checked = check(raw, *hosts, command); !checked) return checked.error();
  const Result<Words> variables = exported(raw, host);
  if (!variables) return variables.error();
  Result<std::shared_ptr<const Secret>> secret = secret_to_send(raw, host);
  if (!secret) return secret.error();
  Words rest = kept_options(options, raw.remote.starter);
  if (raw.has_separator) rest.emplace_back("--");
  rest.insert(rest.end(), command.begin(), command.end());

  remote::Job job;
  job.least = raw.given.contains("nnodes") ? static_cast<size_t>(raw.job.min_nodes) : hosts->size();
  job.has_spares =
      raw.given.contains("nnodes") && static_cast<size_t>(raw.job.max_nodes) < hosts->size();
  job.quit_stops = std::ranges::count(raw.job.signals_to_handle, SIGQUIT) > 0;
  job.start_limit = raw.job.join_timeout;
  job.stop_grace = raw.job.stop_grace;
  job.log_level = raw.job.log_level;
  job.log_format = raw.job.log_format;
  job.warning = raw.unread_config;
  job.instead = raw.remote.instead;
  job.requeue = raw.job.requeue;
  job.secret = std::move(*secret);
  const Arguments arguments(raw, *hosts);
  const std::string directory = host.directory();
  Starters starters(raw.remote, host);
  for (size_t i = 0; i < hosts->size(); ++i) {
    remote::HostSpec& spec = job.hosts.emplace_back();
    spec.name = (*hosts)[i].name;
    if (const Result<> set = starters.set(spec); !set) return set.error();
    spec.order = {directory, *variables, arguments.of(i)};
    spec.order.arguments.insert(spec.order.arguments.end(), rest.begin(), rest.end());
  }
  return job;
}

std::string remote_text(const remote::Job& job) {
  std::string text;
  const auto append = [&text](const Words& words) {
    for (const std::string& word : words) text += " " + shell_word(word);
    text += '\n';
  };
  for (const remote::HostSpec& host : job.hosts) {
    text += host.name + ":";
    append(host.starter);
    text += "    ddprun";
    append(host.order.arguments);
  }
  return text;
}

}  // namespace ddprun::cli
