// SPDX-License-Identifier: Apache-2.0
#include "cli/line/flags.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/line/setters.h"
#include "engine/detect.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kExpectsMasks =
    "0, 1, 2 or 3 for every worker, or LOCALRANK:MASK,... for some, as in 0:3,7:1";
constexpr std::string_view kExpectsTexts =
    "comma-separated texts, none of them empty; write a comma in a text as two";

// clang-format off
constexpr std::array kFlags = std::to_array<Flag>({
    {Group::program, "module", "", "", "PET_MODULE", "",
     "0 or 1",
     "The program is the name of a Python module; python3 -u -m runs it.",
     set_switch<&RawOptions::module>,
     0, 'm'},
    {Group::program, "run_path", "", "", "PET_RUN_PATH", "",
     "0 or 1",
     "The program is a file or a folder that Python's runpy runs, whatever its name is.",
     set_switch<&RawOptions::run_path>},
    {Group::program, "no_python", "", "", "PET_NO_PYTHON", "",
     "0 or 1",
     "Execute the program directly, even if its name ends in .py.",
     set_switch<&RawOptions::no_python>},
    {Group::program, "preload", "", "MODULE,...", "DDPRUN_PRELOAD", "",
     "comma-separated names of Python modules, as in torch,numpy",
     "Import these modules once on each node, and fork the workers of a Python program from there: the "
     "job starts in the time of one import, and restarts at once.",
     set_preload},
    {Group::program, "pass_local_rank", "", "dash|underscore", "DDPRUN_PASS_LOCAL_RANK", "",
     "dash or underscore",
     "Pass each worker its local rank as the first argument, for programs that do not read "
     "LOCAL_RANK. dash: --local-rank=N, as torch.distributed.launch does; underscore: "
     "--local_rank=N, as it did before PyTorch 2.",
     set_local_rank_style},
    {Group::program, "use_env", "", "", "", "",
     "0 or 1",
     "Do not pass the local rank as an argument. This is the default.",
     [](std::string_view, RawOptions& raw) -> SetResult {
       raw.job.local_rank_flag.clear();
       return true;
     }},
    {Group::workers, "nproc_per_node", "", "N|auto|gpu|cpu|gpu-or-1", "PET_NPROC_PER_NODE", "1",
     "a number of workers (1 to 65536), auto, gpu, cpu or gpu-or-1",
     "Workers on this node. gpu: one per GPU; cpu: one per CPU that this process may run on; auto: "
     "one per GPU, or one per CPU if there are no GPUs; gpu-or-1: one per GPU, or one if there are none, "
     "which is the default in a scheduler's job.",
     set_local_size},
    {Group::workers, "gpu_bind", "", "all|isolate", "DDPRUN_GPU_BIND", "all",
     "all or isolate",
     "GPUs each worker sees. all: every GPU of the node, so that cuda:LOCAL_RANK works; isolate: "
     "its own even share of them. The node's GPUs are those in CUDA_VISIBLE_DEVICES if it is set, "
     "else all.",
     set_gpu_bind},
    {Group::workers, "virtual_local_rank", "", "", "PET_VIRTUAL_LOCAL_RANK", "",
     "0 or 1",
     "Every worker gets LOCAL_RANK=0 and sees only one GPU, that of its real local rank. "
     "LOCAL_WORLD_SIZE does not change.",
     set_switch<&agent::JobSpec::virtual_local_rank>},
    {Group::workers, "numa_binding", "", "node|socket|exclusive|core-complex",
     "DDPRUN_NUMA_BINDING", "",
     "node, socket, exclusive or core-complex",
     "CPUs each worker runs on, close to its GPU; without GPUs, an even share of the cores. node, "
     "socket: all CPUs of the NUMA node or socket; exclusive: cores that no other worker has; "
     "core-complex: cores that share a cache.",
     set_numa_binding},
    {Group::workers, "report_bindings", "", "", "DDPRUN_REPORT_BINDINGS", "",
     "0 or 1",
     "Print the GPU and the CPUs of each worker before it starts.",
     set_switch<&agent::JobSpec::report_bindings>},
    {Group::workers, "mpi", "", "auto|pmix|pmi1|both|none", "DDPRUN_MPI", "auto",
     "auto, pmix, pmi1, both or none",
     "How ranks of MPI find each other. pmix: as those of Open MPI do; pmi1: as those of MPICH and Intel "
     "MPI; auto: by the library that the program is linked with, not at all for a script; none: not at "
     "all; --mpi alone: both. See docs/mpirun.md.",
     set_mpi, 0, '\0', "", "both"},
    {Group::workers, "mpi_ft", "", "", "DDPRUN_MPI_FT", "",
     "0 or 1",
     "A rank of Open MPI 5 that is lost does not end the job: ddprun notifies the others, which may continue "
     "without it by ULFM. Implies --mpi pmix.",
     set_switch<&agent::JobSpec::mpi_ft>},
    {Group::workers, "role", "", "NAME", "PET_ROLE", "default",
     "1 to 256 characters, none of them a control character",
     "The workers' ROLE_NAME, and ${role_name} in a prefix. Where nodes have different ones, ROLE_RANK and "
     "ROLE_WORLD_SIZE count the workers of each.",
     set_role},
    {Group::rendezvous, "engine", "", "auto|none|slurm|kubernetes|pbs|sge|lsf|flux", "DDPRUN_ENGINE", "auto",
     "auto, none, slurm, kubernetes, pbs, sge, lsf or flux",
     "The scheduler whose job this is: --nnodes, --node_rank, --rdzv_endpoint, --rdzv_id, "
     "--nproc_per_node and --shutdown_timeout default to its values. auto: the "
     "one whose variables are set; none: ignore them.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       raw.engine = value;
       return value == "auto" || value == "none" || engine::parse_engine(value).has_value();
     }},
    {Group::rendezvous, "nnodes", "nnode", "N|MIN:MAX", "PET_NNODES", "1",
     "a number of nodes (1 to 32767), or a range MIN:MAX",
     "Nodes of the job; must be the same on every node. MIN:MAX: the job continues while at least "
     "MIN nodes are left, and up to MAX may join.",
     set_nodes, Flag::kServes},
    {Group::rendezvous, "node_rank", "", "N", "PET_NODE_RANK", "by order of joining",
     "a number, 0 or more",
     "The rank of this node, from 0. Give it on all nodes or on none. Ignored with --rdzv_backend "
     "c10d, as in torchrun.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_count(value, 0, kMost), raw.job.node_rank);
     }},
    {Group::rendezvous, "hosts", "", "HOST[:N],...", "", "",
     "names of hosts as ssh takes them, with a number of workers or without, as in a,b:4",
     "Start ddprun on these hosts by ssh, from here: the nodes of the job, with ranks in this order. "
     "The first one hosts the rendezvous.",
     set_hosts},
    {Group::rendezvous, "hostfile", "", "FILE", "", "",
     "the name of a file",
     "As --hosts, from a file with one host per line: \"host slots=4\" or \"host:4\".",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       raw.remote.host_file = value;
       return !value.empty();
     }},
    {Group::rendezvous, "ssh", "", "COMMAND", "DDPRUN_SSH", "ssh",
     "a command, as in 'ssh -p 2222'",
     "The ssh for --hosts, with options. It asks no questions: keys have to be set up.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       raw.remote.ssh = value;
       return value.find_first_not_of(' ') == 0;
     }},
    {Group::rendezvous, "export", "", "NAME,...", "", "",
     "comma-separated names of variables, with or without a * at the end",
     "Environment variables to pass on to the workers on --hosts, besides PATH, "
     "LD_LIBRARY_PATH, PYTHONPATH, PYTHON_EXEC, VIRTUAL_ENV and those that begin with CUDA_, NCCL_, "
     "GLOO_, TORCH_, OMP_, PET_ and DDPRUN_.",
     set_exported},
    {Group::rendezvous, "rdzv_endpoint", "", "HOST[:PORT]", "PET_RDZV_ENDPOINT", "",
     "HOST or HOST:PORT with a port up to 65535, an IPv6 address before a port in brackets",
     "Address of the rendezvous; must be the same on every node: the host name or address of one "
     "of the nodes or of ddprun serve. ddprun serve also accepts :PORT, which means every address "
     "of its host. With --rdzv_backend etcd: the servers of etcd, HOST[:PORT],... Overrides "
     "--master_addr and --master_port.",
     set_endpoint, Flag::kServes},
    {Group::rendezvous, "master_addr", "master_address", "HOST", "PET_MASTER_ADDR",
     "127.0.0.1 for one node",
     "a host name or an IP address, without a port",
     "Host of the rendezvous, and the workers' MASTER_ADDR.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_host(value), raw.master_addr);
     },
     Flag::kServes | Flag::kYields},
    {Group::rendezvous, "master_port", "", "PORT", "PET_MASTER_PORT",
     "29500; a free port for one node",
     "a port number, 0 to 65535 (0: a free one)",
     "TCP port of the rendezvous; the workers' store shares it.",
     set_master_port, Flag::kServes | Flag::kYields},
    {Group::rendezvous, "rdzv_id", "", "ID", "PET_RDZV_ID", "none",
     "1 to 256 characters, none of them a control character",
     "Name of the job. Nodes with a different one are refused.",
     set_run_id, Flag::kServes},
    {Group::rendezvous, "rdzv_backend", "", "static|c10d|etcd", "PET_RDZV_BACKEND", "",
     "static, c10d or etcd",
     "static and c10d, as in torchrun, are the same here. With etcd any node may host the rendezvous, "
     "and another one takes over if it is lost: see docs/etcd.md.",
     set_backend, Flag::kServes},
    {Group::rendezvous, "rdzv_conf", "", "KEY=VALUE,...", "PET_RDZV_CONF", "",
     "pairs such as join_timeout=60,last_call_timeout=5",
     "torchrun's keys: join_timeout or timeout, last_call_timeout, keep_alive_interval (the "
     "heartbeat interval), keep_alive_max_attempt (the lease in heartbeats), and is_host=true or "
     "false if this node must or must not host the rendezvous; with it more_ports=PORT:PORT, further "
     "ports if something else has the first one, the same on all nodes. For etcd also "
     "protocol=https, cacert, cert and key. torchrun's other keys have no effect. The flags below "
     "override it.",
     set_conf, Flag::kServes | Flag::kYields},
    {Group::rendezvous, "secret_file", "", "FILE", "DDPRUN_SECRET_FILE", "",
     "the name of a file",
     "File with the secret of the job, the same on every node, that only its owner may read. Nodes "
     "without it are refused, and traffic between nodes and rendezvous is encrypted. ddprun secret "
     "makes one. DDPRUN_SECRET may hold the secret itself. In a Slurm job with munge neither is "
     "needed.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       raw.secret_file = value;
       return !value.empty();
     },
     Flag::kServes},
    {Group::rendezvous, "local_addr", "", "ADDRESS", "PET_LOCAL_ADDR", "",
     "an IP address of this host, without a port",
     "IP address of this node to connect from.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_address(value), raw.job.local_addr);
     }},
    {Group::rendezvous, "join_timeout", "", "TIME", "DDPRUN_JOIN_TIMEOUT", "600",
     kExpectsNonzeroTime,
     "How long to wait for enough nodes. All times are in seconds, or have a unit, as in 500ms, "
     "10s, 5min, 1h, 1d.",
     set_nonzero_time<&agent::JobSpec::join_timeout>, Flag::kServes},
    {Group::rendezvous, "last_call_timeout", "", "TIME", "DDPRUN_LAST_CALL_TIMEOUT", "30",
     kExpectsTime,
     "With MIN:MAX: how long to wait for more nodes once MIN have joined.",
     set_time<&agent::JobSpec::last_call>, Flag::kServes},
    {Group::rendezvous, "heartbeat_interval", "", "TIME", "DDPRUN_HEARTBEAT_INTERVAL", "2",
     kExpectsNonzeroTime,
     "Time between two heartbeats of a node.",
     set_nonzero_time<&agent::JobSpec::heartbeat>, Flag::kServes},
    {Group::rendezvous, "lease", "", "TIME", "DDPRUN_LEASE", "10",
     kExpectsNonzeroTime,
     "A node that is silent for this long is lost, and kills its own workers.",
     set_nonzero_time<&agent::JobSpec::lease>, Flag::kServes},
    {Group::rendezvous, "standalone", "", "", "PET_STANDALONE", "",
     "0 or 1",
     "A job of one node: the rendezvous is at 127.0.0.1 and a free port, even if the flags above "
     "give another address.",
     set_switch<&RawOptions::standalone>},
    {Group::rendezvous, "store", "", "agent|worker|tunnel", "DDPRUN_STORE", "agent",
     "agent, worker or tunnel",
     "Server of the workers' key-value store. agent: ddprun, every rank is a client; worker: rank "
     "0, for programs that listen on MASTER_PORT themselves; tunnel: ddprun, and workers' requests "
     "are encrypted between nodes (needs a secret).",
     set_store, Flag::kServes},
    {Group::failures, "max_restarts", "", "N|N/WINDOW", "PET_MAX_RESTARTS", "0",
     "a number, 0 or more, or a number per time as in 3/1h",
     "How often to restart the workers after one of them failed, counted for the whole job. 3/1h: "
     "at most 3 times within any hour. Nodes that join or leave do not count.",
     set_restarts, Flag::kServes},
    {Group::failures, "restart_backoff", "", "TIME", "DDPRUN_RESTART_BACKOFF", "0",
     kExpectsTime,
     "How long to wait before the first restart; doubles with each further one, up to 5 minutes.",
     set_time<&agent::JobSpec::restart_backoff>, Flag::kServes},
    {Group::failures, "min_uptime", "", "TIME", "DDPRUN_MIN_UPTIME", "0",
     kExpectsTime,
     "Workers that fail sooner than this after their start are not restarted.",
     set_time<&agent::JobSpec::min_uptime>, Flag::kServes},
    {Group::failures, "hang_timeout", "", "TIME", "DDPRUN_HANG_TIMEOUT", "",
     kExpectsNonzeroTime,
     "A round in which no worker makes progress for this long fails. Without this flag a hang is only "
     "reported, after 10 minutes, and the job continues. Progress: heartbeats of workers (sd_notify, "
     "ddp::heartbeat) and lines with --progress_pattern, or else output, CPU time, input and output.",
     set_nonzero_time<&agent::JobSpec::hang_timeout>, Flag::kServes},
    {Group::failures, "progress_pattern", "", "REGEX", "DDPRUN_PROGRESS_PATTERN", "",
     "an extended regular expression, as in 'step [0-9]+'",
     "A worker makes progress with each line of its output that matches. Streams that go only to a "
     "log file (--redirects) do not count.",
     set_progress_pattern},
    {Group::failures, "flight_recorder", "", "0|1", "DDPRUN_FLIGHT_RECORDER", "1",
     "0 or 1",
     "Read the collective calls of Python workers from PyTorch's flight recorder, after a failure or "
     "in a hang. 0: leave PYTHONPATH as it is.",
     set_switch<&agent::JobSpec::flight_recorder>},
    {Group::failures, "shutdown_timeout", "", "TIME", "PET_SHUTDOWN_TIMEOUT", "30",
     kExpectsTime,
     "How long a worker may take to exit after the first signal; then it is killed. 0: kill "
     "immediately.",
     set_time<&agent::JobSpec::stop_grace>, 0, '\0', "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
    {Group::failures, "signals_to_handle", "", "NAME,...", "PET_SIGNALS_TO_HANDLE",
     "SIGTERM,SIGINT,SIGHUP,SIGQUIT",
     "comma-separated names of signals",
     "Signals that stop the job: the workers get the same signal, and have --shutdown_timeout to "
     "exit. If they are not in the list, SIGUSR1 and SIGUSR2 are forwarded to workers that handle "
     "them, SIGQUIT shows where the workers are, and other signals end ddprun and kill its workers "
     "at once.",
     set_signals},
    {Group::failures, "deadline_signal", "", "SIGNAL[@TIME]", "DDPRUN_DEADLINE_SIGNAL", "USR2@90s",
     "the name of a signal, with or without a time before the deadline, as in USR2@90s, or none",
     "In a job of Slurm: the signal that workers get this long before its time limit, to save their "
     "state. Workers that do not handle it do not get it.",
     set_deadline_signal},
    {Group::failures, "requeue", "", "N", "", "",
     "a number of times, 1 or more",
     "Requeue a batch job of Slurm that was ended by its time limit, a preemption or a lost host, "
     "and not by a failure of its workers; at most N times.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_count(value, 1, kMost), raw.requeue);
     }},
    {Group::output, "prefix", "", "TEMPLATE", "DDPRUN_PREFIX", "'[${rank}] ' for several workers",
     "a template such as '[${rank}] '",
     "Text before each line of a worker's output. Macros: ${rank}, ${local_rank}, ${node_rank}, "
     "${world_size}, ${restart}, ${host} and ${role_name}.",
     set_prefix},
    {Group::output, "no_prefix", "", "", "DDPRUN_NO_PREFIX", "",
     "0 or 1",
     "Print the workers' lines without a prefix.",
     set_switch<&RawOptions::no_prefix>},
    {Group::output, "tty", "", "auto|never|always", "DDPRUN_TTY", "auto",
     "auto, never or always",
     "Whether workers write to pseudo-terminals, so that they show colours and progress bars and "
     "print each line at once. auto: stdout and stderr each, if ddprun's own is a terminal and the "
     "stream goes to no log file.",
     set_tty},
    {Group::output, "pdb", "", "RANK", "", "",
     "a rank, 0 or more",
     "This rank has the terminal: it reads stdin instead of rank 0, its output is shown unchanged, "
     "and Ctrl-C interrupts only it; SIGQUIT stops the job. Other ranks of its node are not "
     "shown. For breakpoint() and torch.distributed.breakpoint(RANK).",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_count(value, 0, kMost), raw.job.debugged_rank);
     }},
    {Group::output, "color", "colour", "auto|never|always", "DDPRUN_COLOR", "auto",
     "auto, never or always",
     "Colours of prefixes, by rank, and of ddprun's failures. auto: NO_COLOR, CLICOLOR_FORCE, "
     "FORCE_COLOR and CLICOLOR decide; without them, colours on a terminal.",
     set_colour_choice, Flag::kServes},
    {Group::output, "log_dir", "", "DIR", "PET_LOG_DIR", "a temporary one",
     "the name of a directory, or /dev/null",
     "Directory of log and error files: DIR/ID_RANDOM/attempt_N/LOCAL_RANK/, where N counts rounds "
     "from 0. Created if missing. /dev/null: no files.",
     set_log_dir},
    {Group::output, "redirects", "redirect", "MASK", "PET_REDIRECTS", "0",
     kExpectsMasks,
     "Streams that go to a log file and not to the console: 1 stdout, 2 stderr, 3 both, for every "
     "worker; 0:3,7:1 for some local ranks.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_masks(value), raw.job.logs.redirects);
     },
     0, 'r'},
    {Group::output, "tee", "", "MASK", "PET_TEE", "0",
     kExpectsMasks,
     "Streams that go to a log file and to the console. Overrides --redirects.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_masks(value), raw.job.logs.tees);
     },
     0, 't'},
    {Group::output, "local_ranks_filter", "", "N,...", "PET_LOCAL_RANKS_FILTER", "",
     "comma-separated local ranks",
     "Show only the output of these local ranks. Log files are not affected.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_ranks(value), raw.job.logs.shown);
     }},
    {Group::output, "duplicate_stdout_filters", "", "TEXT,...", "PET_DUPLICATE_STDOUT_FILTERS", "",
     kExpectsTexts,
     "Copy each line of any worker's stdout that contains one of these texts to "
     "attempt_N/filtered_stdout.log. Write a comma in a text as two.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_texts(value), raw.job.logs.duplicate_out_filters);
     }},
    {Group::output, "duplicate_stderr_filters", "", "TEXT,...", "PET_DUPLICATE_STDERR_FILTERS", "",
     kExpectsTexts,
     "The same for stderr.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return assign(parse_texts(value), raw.job.logs.duplicate_err_filters);
     }},
    {Group::output, "log_level", "", "debug|info|warning|error|off", "DDPRUN_LOG_LEVEL", "info",
     "debug, info, warning, error or off",
     "Lowest level of ddprun's own messages to show.",
     set_log_level, Flag::kServes},
    {Group::output, "quiet", "", "", "", "",
     "0 or 1",
     "Print only errors and failure reports, no other messages of ddprun: --log_level error.",
     set_quiet, Flag::kServes, 'q'},
    {Group::output, "log_format", "", "text|plain|json", "DDPRUN_LOG_FORMAT", "text",
     "text, plain or json",
     "Format of ddprun's own messages. text: with the time if stderr is a file or --log_level is "
     "debug; plain: without the time; json: JSON objects, one a line: time, level, host (with "
     "several nodes), message.",
     set_log_format, Flag::kServes},
    {Group::output, "events", "", "FILE", "DDPRUN_EVENTS", "",
     "the name of a file",
     "Append events to FILE, one JSON object per line.",
     set_events, Flag::kServes},
    {Group::output, "web", "", "[ADDRESS:]PORT", "", "127.0.0.1 and a free port",
     "a port, or an IP address and a port, as in --web=8080 or --web=0.0.0.0:8080",
     "Serve a page about the whole job, and its metrics for Prometheus. The URL, with an access "
     "token, is printed at the start. With --hosts the first host serves it.",
     set_web, 0, '\0', "", "auto"},
    {Group::torchrun, "monitor_interval", "", "TIME", "PET_MONITOR_INTERVAL", "",
     kExpectsTime,
     "No effect: ddprun does not poll; the kernel notifies it when a worker exits.",
     [](std::string_view value, RawOptions&) -> SetResult {
       return parse_time(value).has_value();
     }},
    {Group::torchrun, "start_method", "", "spawn|fork|forkserver", "PET_START_METHOD", "",
     "spawn, fork or forkserver",
     "No effect: each worker is a new process, or with --preload a fork.",
     set_start_method},
    {Group::torchrun, "event_log_handler", "", "null", "PET_EVENT_LOG_HANDLER", "",
     "null",
     "Python plug-ins are refused; use --events to write events to a file.",
     set_event_handler},
    {Group::torchrun, "log_line_prefix_template", "", "TEMPLATE", "PET_LOG_LINE_PREFIX_TEMPLATE", "",
     "a template such as '[${rank}] '",
     "torchrun's name for --prefix.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       return value.empty() || set_prefix(value, raw);
     },
     Flag::kYields},
    {Group::torchrun, "logs_specs", "", "default", "", "",
     "default",
     "No effect: Python plug-ins are refused.",
     set_logs_specs},
    {Group::information, "config", "", "FILE", "DDPRUN_CONFIG", "ddprun.toml, if it is here",
     "the name of a file, or none",
     "File with values of flags, one per line: nproc_per_node = 4. The command line and the "
     "environment override it. none: read no file. ddprun.toml counts only if it belongs to you.",
     [](std::string_view value, RawOptions&) -> SetResult { return !value.empty(); },
     Flag::kServes},
    {Group::information, "dry_run", "", "", "", "",
     "0 or 1",
     "Print the commands and environments of the workers, and the source of each value that is not "
     "from the command line, and run nothing.",
     set_switch<&RawOptions::dry_run>},
    {Group::information, "bench", "", "", "", "",
     "0 or 1",
     "Also measure how fast each node sends to the next one while all do, as in a ring "
     "all_reduce, for 5 seconds. Give it on all nodes.",
     set_switch<&RawOptions::bench>, Flag::kDoctors},
    {Group::information, "json", "", "", "", "",
     "0 or 1",
     "Print the report as JSON.",
     set_switch<&RawOptions::json>, Flag::kDoctors},
    {Group::information, kPrintCompletion, "", "bash|zsh|fish", "", "",
     "bash, zsh or fish",
     "Print the completion script for this shell. bash: source "
     "<(ddprun --print_completion bash); zsh: the same, after compinit; fish: ddprun "
     "--print_completion fish | source.",
     [](std::string_view value, RawOptions& raw) -> SetResult {
       raw.shell = value;
       return value == "bash" || value == "zsh" || value == "fish";
     }},
    {Group::information, kHelp, "", "", "", "", "", "Print this help; -h: a short one.", set_nothing,
     Flag::kServes, 'h'},
    {Group::information, kVersion, "", "", "", "", "", "Print the version.", set_nothing,
     Flag::kServes, 'V'},
});
// clang-format on

const Flag* find_name(std::string_view written) {
  std::string name(written);
  std::replace(name.begin(), name.end(), '-', '_');
  if (name.empty()) return nullptr;  // an empty alias means none
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

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

}  // namespace

std::string spelled(const Flag& flag) {
  return "--" + std::string(flag.name);
}

std::span<const Flag> flags() {
  return kFlags;
}

std::vector<std::string> literal_values(std::string_view value) {
  std::vector<std::string> words;
  while (!value.empty()) {
    const std::string_view word = take_piece(value, '|');
    if (std::ranges::all_of(word, is_word_letter)) words.emplace_back(word);
  }
  return words;
}

bool can_follow(const Flag& flag, std::string_view word) {
  if (flag.may_be_alone()) return std::ranges::count(literal_values(flag.value), word) > 0;
  return word != "--" && find_flag(word) == nullptr;
}

FlagWord read_flag(std::string_view word) {
  const size_t equals = word.find('=');
  if (word.starts_with("--")) {
    const Flag* flag = find_name(word.substr(2, equals - 2));
    if (equals == std::string_view::npos) return {flag, std::nullopt};
    return {flag, word.substr(equals + 1)};
  }
  if (word.size() < 2 || word.front() != '-') return {};
  if (find_name(word.substr(1, equals - 1))) return {};  // "-role" lacks a dash; it is not -r ole
  const Flag* flag = find_letter(word[1]);
  const std::string_view rest = word.substr(2);
  if (flag == nullptr || rest.empty()) return {flag, std::nullopt};
  if (rest.front() == '=') return {flag, rest.substr(1)};
  return flag->value.empty() ? FlagWord() : FlagWord{flag, rest};
}

const Flag* find_flag(std::string_view word) {
  return read_flag(word).flag;
}

}  // namespace ddprun::cli
