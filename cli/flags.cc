// SPDX-License-Identifier: Apache-2.0
#include "cli/flags.h"

#include <algorithm>
#include <array>

#include "cli/setters.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kWantsMasks =
    "0, 1, 2 or 3 for every worker, or LOCALRANK:MASK,... for some, as in 0:3,7:1";
constexpr std::string_view kWantsTexts =
    "texts with commas between them, none of them empty; two commas stand for one in a text";

// clang-format off
constexpr std::array kFlags = std::to_array<Flag>({
    {Group::program, "module", "", "", "PET_MODULE", "",
     "0 or 1",
     "The program is the name of a Python module: python3 -u -m runs it.",
     [](std::string_view value, RawOptions& c) -> Taken { return set_switch(value, c.module); },
     0, 'm'},
    {Group::program, "no_python", "", "", "PET_NO_PYTHON", "",
     "0 or 1",
     "Execute the program itself, even if its name ends in .py.",
     [](std::string_view value, RawOptions& c) -> Taken { return set_switch(value, c.no_python); }},
    {Group::program, "pass_local_rank", "", "dash|underscore", "DDPRUN_PASS_LOCAL_RANK", "",
     "dash or underscore",
     "Give each worker its local rank as the first argument, for programs that do not read "
     "LOCAL_RANK. dash: --local-rank=N, as torch.distributed.launch does; underscore: "
     "--local_rank=N, as it did before PyTorch 2.",
     set_local_rank_style},
    {Group::program, "use_env", "", "", "", "",
     "0 or 1",
     "Give no such argument. So it is without --pass_local_rank, too.",
     [](std::string_view, RawOptions& c) -> Taken {
       c.job.local_rank_flag.clear();
       return true;
     }},
    {Group::workers, "nproc_per_node", "", "N|auto|gpu|cpu", "PET_NPROC_PER_NODE", "1",
     "a number of workers (1 to 65536), auto, gpu or cpu",
     "Workers on this node. gpu: one for each GPU; cpu: one for each CPU this process may run on; "
     "auto: one for each GPU, without GPUs one for each CPU.",
     set_local_size},
    {Group::workers, "gpu_bind", "", "all|isolate", "DDPRUN_GPU_BIND", "all",
     "all or isolate",
     "GPUs each worker sees. all: every GPU of the node, so that cuda:LOCAL_RANK works; isolate: a "
     "block of its own, the node's GPUs divided evenly. The node's GPUs are those of "
     "CUDA_VISIBLE_DEVICES where it is set, else all there are.",
     set_gpu_bind},
    {Group::workers, "virtual_local_rank", "", "", "PET_VIRTUAL_LOCAL_RANK", "",
     "0 or 1",
     "Every worker gets LOCAL_RANK=0 and sees one GPU alone, that of its place on the node. "
     "LOCAL_WORLD_SIZE stays.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return set_switch(value, c.job.virtual_local_rank);
     }},
    {Group::workers, "numa_binding", "", "node|socket|exclusive|core-complex",
     "DDPRUN_NUMA_BINDING", "",
     "node, socket, exclusive or core-complex",
     "CPUs each worker runs on, next to its GPU; without GPUs an even share of the cores. node, "
     "socket: all CPUs there; exclusive: cores that no other worker has; core-complex: cores that "
     "share a cache.",
     set_numa_binding},
    {Group::workers, "report_bindings", "", "", "DDPRUN_REPORT_BINDINGS", "",
     "0 or 1",
     "Say for each worker, before it starts, which GPU and which CPUs it has.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return set_switch(value, c.job.report_bindings);
     }},
    {Group::workers, "role", "", "NAME", "PET_ROLE", "default",
     "1 to 256 characters, none of them a control character",
     "ROLE_NAME of the workers, and ${role_name} in a prefix. The same on every node.",
     set_role},
    {Group::rendezvous, "nnodes", "nnode", "N|MIN:MAX", "PET_NNODES", "1",
     "a number of nodes (1 to 32767), or the least and the most as MIN:MAX",
     "Nodes of the job, the same on each. MIN:MAX: the job goes on while MIN are left, and takes "
     "in up to MAX.",
     set_nodes, Flag::kServes},
    {Group::rendezvous, "node_rank", "", "N", "PET_NODE_RANK", "by order of joining",
     "a number, 0 or more",
     "Which of the nodes this one is, from 0. Give it on all nodes or on none. Not looked at with "
     "--rdzv_backend c10d, as by torchrun.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_count(value, 0, kMost), c.job.node_rank);
     }},
    {Group::rendezvous, "rdzv_endpoint", "", "HOST[:PORT]", "PET_RDZV_ENDPOINT", "",
     "HOST or HOST:PORT, an IPv6 address before a port in brackets",
     "Where the nodes meet, the same on each: a name or address of one of them, or of ddprun "
     "serve, where :PORT means every address. Counts more than the two flags below.",
     set_endpoint, Flag::kServes},
    {Group::rendezvous, "master_addr", "master_address", "HOST", "PET_MASTER_ADDR",
     "127.0.0.1 for one node",
     "a host name or an IP address, without a port",
     "The same host in torchrun's other words, and MASTER_ADDR of the workers.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_host(value), c.master_addr);
     },
     Flag::kServes | Flag::kYields},
    {Group::rendezvous, "master_port", "", "PORT", "PET_MASTER_PORT",
     "29500; a free port for one node",
     "a port number, 0 to 65535 (0: a free one)",
     "TCP port there: agents and the workers' store share it.",
     set_master_port, Flag::kServes | Flag::kYields},
    {Group::rendezvous, "rdzv_id", "", "ID", "PET_RDZV_ID", "none",
     "1 to 256 characters, none of them a control character",
     "The job's name. Nodes that give another one are refused.",
     set_run_id, Flag::kServes},
    {Group::rendezvous, "rdzv_backend", "", "static|c10d", "PET_RDZV_BACKEND", "",
     "static or c10d",
     "Taken for torchrun's sake: both mean the one rendezvous there is.",
     set_backend, Flag::kServes},
    {Group::rendezvous, "rdzv_conf", "", "KEY=VALUE,...", "PET_RDZV_CONF", "",
     "pairs such as join_timeout=60,last_call_timeout=5",
     "torchrun's keys: join_timeout or timeout, last_call_timeout, keep_alive_interval (the "
     "heartbeat), keep_alive_max_attempt (so many heartbeats are a lease), and is_host=true or "
     "false where this node must or must not host the rendezvous. Its other keys are taken and "
     "mean nothing here. The flags below count more.",
     set_conf, Flag::kServes | Flag::kYields},
    {Group::rendezvous, "local_addr", "", "ADDRESS", "PET_LOCAL_ADDR", "",
     "an IP address of this host, without a port",
     "The IP address of this node to connect from.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_address(value), c.job.local_addr);
     }},
    {Group::rendezvous, "join_timeout", "", "TIME", "DDPRUN_JOIN_TIMEOUT", "600",
     kWantsSomeTime,
     "How long to wait for enough nodes. Every time is in seconds, or has a unit, as in 500ms, "
     "10s, 5min, 1h, 1d.",
     set_some_time<&agent::JobSpec::join_timeout>, Flag::kServes},
    {Group::rendezvous, "last_call_timeout", "", "TIME", "DDPRUN_LAST_CALL_TIMEOUT", "30",
     kWantsTime,
     "With MIN:MAX: how long to wait for more once MIN nodes are there.",
     set_time<&agent::JobSpec::last_call>, Flag::kServes},
    {Group::rendezvous, "heartbeat_interval", "", "TIME", "DDPRUN_HEARTBEAT_INTERVAL", "2",
     kWantsSomeTime,
     "Between two signs of life of a node.",
     set_some_time<&agent::JobSpec::heartbeat>, Flag::kServes},
    {Group::rendezvous, "lease", "", "TIME", "DDPRUN_LEASE", "10",
     kWantsSomeTime,
     "A node that is silent for so long is lost, and stops its workers itself.",
     set_some_time<&agent::JobSpec::lease>, Flag::kServes},
    {Group::rendezvous, "standalone", "", "", "PET_STANDALONE", "",
     "0 or 1",
     "One node: meet on 127.0.0.1 at a free port, whatever the flags above say.",
     [](std::string_view value, RawOptions& c) -> Taken { return set_switch(value, c.standalone); }},
    {Group::rendezvous, "store", "", "agent|worker", "DDPRUN_STORE", "agent",
     "agent or worker",
     "Who serves the workers' key-value store. agent: ddprun does, every rank is a client; worker: "
     "rank 0, for programs that listen on MASTER_PORT themselves.",
     set_store},
    {Group::failures, "max_restarts", "", "N|N/WINDOW", "PET_MAX_RESTARTS", "0",
     "a number, 0 or more, or one within a time as in 3/1h",
     "How often the workers are started again after one of them failed, counted once for the whole "
     "job. 3/1h: at most 3 times within any hour. Nodes that come and go cost none.",
     set_restarts, Flag::kServes},
    {Group::failures, "restart_backoff", "", "TIME", "DDPRUN_RESTART_BACKOFF", "0",
     kWantsTime,
     "How long to wait before the first restart; twice as long before each further one, up "
     "to 5 minutes.",
     set_time<&agent::JobSpec::restart_backoff>, Flag::kServes},
    {Group::failures, "min_uptime", "", "TIME", "DDPRUN_MIN_UPTIME", "0",
     kWantsTime,
     "Workers that fail before they ran for so long are not started again.",
     set_time<&agent::JobSpec::min_uptime>, Flag::kServes},
    {Group::failures, "shutdown_timeout", "", "TIME", "PET_SHUTDOWN_TIMEOUT", "30",
     kWantsTime,
     "How long a worker may take to end after the first signal; then it is killed. 0: at once.",
     set_time<&agent::JobSpec::stop_grace>, 0, '\0', "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
    {Group::failures, "signals_to_handle", "", "NAME,...", "PET_SIGNALS_TO_HANDLE",
     "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     "names of signals, with commas between them",
     "The signals that stop the job: the workers get the same one, and then the time above. Of the "
     "others, SIGUSR1 and SIGUSR2 are handed to the workers and stop nothing; the rest end ddprun "
     "as they would end any process, and its workers with it, at once.",
     block_signals},
    {Group::output, "prefix", "", "TEMPLATE", "DDPRUN_PREFIX", "'[${rank}] ' for several workers",
     "a template such as '[${rank}] '",
     "What stands before each line of a worker's output. Replaced are ${rank}, ${local_rank}, "
     "${node_rank}, ${world_size}, ${restart}, ${host} and ${role_name}.",
     set_prefix},
    {Group::output, "no_prefix", "", "", "DDPRUN_NO_PREFIX", "",
     "0 or 1",
     "Leave the workers' lines as they are.",
     [](std::string_view value, RawOptions& c) -> Taken { return set_switch(value, c.no_prefix); }},
    {Group::output, "log_dir", "", "DIR", "PET_LOG_DIR", "a temporary one",
     "the name of a directory, or /dev/null",
     "Where log and error files go: DIR/ID_RANDOM/attempt_N/LOCAL_RANK/, N counting rounds from 0. "
     "Made when it is missing. /dev/null: no files at all.",
     set_log_dir},
    {Group::output, "redirects", "redirect", "MASK", "PET_REDIRECTS", "0",
     kWantsMasks,
     "What goes to a log file and not to the console: 1 stdout, 2 stderr, 3 both, of every worker; "
     "0:3,7:1 of some local ranks.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_masks(value), c.job.logs.redirects);
     },
     0, 'r'},
    {Group::output, "tee", "", "MASK", "PET_TEE", "0",
     kWantsMasks,
     "Likewise what goes to a log file and to the console. Counts more than --redirects.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_masks(value), c.job.logs.tees);
     },
     0, 't'},
    {Group::output, "local_ranks_filter", "", "N,...", "PET_LOCAL_RANKS_FILTER", "",
     "local ranks with commas between them",
     "Show the output of these local ranks alone. Log files are not changed by it.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_ranks(value), c.job.logs.shown);
     }},
    {Group::output, "duplicate_stdout_filters", "", "TEXT,...", "PET_DUPLICATE_STDOUT_FILTERS", "",
     kWantsTexts,
     "Copy each line of stdout with one of these texts in it, of all workers, to "
     "attempt_N/filtered_stdout.log. Two commas stand for one.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_texts(value), c.job.logs.duplicate_out_filters);
     }},
    {Group::output, "duplicate_stderr_filters", "", "TEXT,...", "PET_DUPLICATE_STDERR_FILTERS", "",
     kWantsTexts,
     "Likewise for stderr.",
     [](std::string_view value, RawOptions& c) -> Taken {
       return put(parse_texts(value), c.job.logs.duplicate_err_filters);
     }},
    {Group::output, "log_level", "", "LEVEL", "DDPRUN_LOG_LEVEL", "info",
     "debug, info, warning, error or off",
     "Which of ddprun's own lines are shown: debug, info, warning, error or off.",
     set_log_level, Flag::kServes},
    {Group::output, "events", "", "FILE", "DDPRUN_EVENTS", "",
     "the name of a file",
     "Append one JSON object a line to FILE for each thing that happens.",
     set_events, Flag::kServes},
    {Group::torchrun, "monitor_interval", "", "TIME", "PET_MONITOR_INTERVAL", "",
     kWantsTime,
     "Means nothing: ddprun does not look from time to time, it is told when a worker ends.",
     [](std::string_view value, RawOptions&) -> Taken { return parse_time(value).has_value(); }},
    {Group::torchrun, "start_method", "", "spawn|fork|forkserver", "PET_START_METHOD", "",
     "spawn, fork or forkserver",
     "Means nothing: every worker is a program that is executed.",
     set_start_method},
    {Group::torchrun, "event_log_handler", "", "null", "PET_EVENT_LOG_HANDLER", "",
     "null",
     "Plug-ins are refused: --events writes a file.",
     set_event_handler},
    {Group::torchrun, "log_line_prefix_template", "", "TEMPLATE", "PET_LOG_LINE_PREFIX_TEMPLATE", "",
     "a template such as '[${rank}] '",
     "--prefix in torchrun's words.",
     [](std::string_view value, RawOptions& c) -> Taken { return value.empty() || set_prefix(value, c); },
     Flag::kYields},
    {Group::torchrun, "logs_specs", "", "NAME", "", "",
     "to be left out",
     "Refused: a plug-in, too.",
     refuse_logs_specs},
    {Group::torchrun, "run_path", "", "", "PET_RUN_PATH", "",
     "0",
     "Refused: python3 runs any program that ends in .py.",
     set_run_path},
    {Group::information, "dry_run", "", "", "", "",
     "0 or 1",
     "Print what would be run with which environment, and run nothing.",
     [](std::string_view value, RawOptions& c) -> Taken { return set_switch(value, c.dry_run); }},
    {Group::information, kHelp, "", "", "", "", "", "Print this text.", set_nothing,
     Flag::kServes, 'h'},
    {Group::information, kVersion, "", "", "", "", "", "Print the version.", set_nothing,
     Flag::kServes},
});
// clang-format on

const Flag* find_name(std::string_view written) {
  std::string name(written);
  std::replace(name.begin(), name.end(), '-', '_');
  if (name.empty()) return nullptr;  // as the alias is of a flag that has none
  const auto flag = std::find_if(kFlags.begin(), kFlags.end(), [&](const Flag& candidate) {
    return candidate.name == name || candidate.alias == name;
  });
  return flag == kFlags.end() ? nullptr : &*flag;
}

const Flag* find_letter(char letter) {
  const auto flag = std::find_if(kFlags.begin(), kFlags.end(), [letter](const Flag& candidate) {
    return candidate.letter == letter;
  });
  return flag == kFlags.end() ? nullptr : &*flag;
}

}  // namespace

std::span<const Flag> flags() {
  return kFlags;
}

Said read_flag(std::string_view word) {
  const size_t equals = word.find('=');
  if (word.starts_with("--")) {
    const Flag* flag = find_name(word.substr(2, equals - 2));
    if (equals == std::string_view::npos) return {flag, std::nullopt};
    return {flag, word.substr(equals + 1)};
  }
  if (word.size() < 2 || word.front() != '-') return {};
  if (find_name(word.substr(1, equals - 1))) return {};  // "-role" lacks a dash, and is no "-r ole"
  const Flag* flag = find_letter(word[1]);
  const std::string_view rest = word.substr(2);
  if (flag == nullptr || rest.empty()) return {flag, std::nullopt};
  if (rest.front() == '=') return {flag, rest.substr(1)};
  return flag->value.empty() ? Said() : Said{flag, rest};
}

const Flag* find_flag(std::string_view word) {
  return read_flag(word).flag;
}

}  // namespace ddprun::cli
