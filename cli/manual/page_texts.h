// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

// Texts of the manual's pages besides the tables of flags and commands. Pure.

namespace ddprun::cli {

struct ItemText {
  std::string_view term;
  std::string_view text;
};

constexpr auto kUsage = std::to_array<std::string_view>({
    "ddprun [options] [--] program [args...]",
    "ddprun [options] -m module [args...]",
    "ddprun serve [options]",
    "ddprun doctor [options] [program [args...]]",
    "ddprun secret [FILE]",
    "ddprun ls | status | watch | logs | stacks | stop [--help]",
    "ddprun manifest job|jobset|trainjob [options] [--] program [args...]",
    "ddprun launch [options] [--] program [args...]",
    "ddprun help [TOPIC]",
});

constexpr std::string_view kDescription =
    "Starts several copies of a program that train together, each with its rank in the "
    "environment, and monitors them: when one fails, the others are stopped, and all are restarted "
    "while restarts are left. No process outlives ddprun.\n\n"
    "On several nodes, run the same command on each, or one command with --hosts. ddprun serve "
    "runs only the rendezvous, so that any node may be lost; ddprun serve --help lists its "
    "options. ddprun ls, status, watch, logs, stacks and stop ask a running job. ddprun doctor "
    "checks whether a job with these options would work; see ddprun doctor --help. ddprun help "
    "TOPIC shows a part of this text.\n\n"
    "A program that ends in .py, or a module, is run by the first python3 in PATH, with -u; "
    "PYTHON_EXEC names another interpreter. Anything else is executed directly. To run a program "
    "that has the name of a command, use ddprun ./NAME or ddprun -- NAME.\n\n"
    "Options end at the program. --flag value and --flag=value are the same, and so are dashes and "
    "underscores. Flags can also be set by environment variables, or in a file ddprun.toml by "
    "the flags' names. Precedence: command line, environment, file, and then the scheduler's "
    "values.";

constexpr std::string_view kEnvironment =
    "Workers inherit ddprun's environment. ddprun --dry_run shows the values.";

constexpr auto kWorkerVariables = std::to_array<ItemText>({
    {"RANK, WORLD_SIZE", "The worker's number in the job, from 0, and how many workers it has."},
    {"LOCAL_RANK, LOCAL_WORLD_SIZE", "The same on its node."},
    {"GROUP_RANK, GROUP_WORLD_SIZE", "The node's number in the job, and how many nodes it has."},
    {"ROLE_NAME, ROLE_RANK, ROLE_WORLD_SIZE",
     "--role, and the worker's rank among those of that role, and their number."},
    {"MASTER_ADDR, MASTER_PORT", "Address of the workers' store."},
    {"DDPRUN_MASTER_ADDR, DDPRUN_MASTER_PORT",
     "With --store tunnel, the address of the rendezvous."},
    {"TORCHELASTIC_RUN_ID", "--rdzv_id."},
    {"TORCHELASTIC_RESTART_COUNT, TORCHELASTIC_MAX_RESTARTS",
     "How often the job was restarted, and --max_restarts."},
    {"TORCHELASTIC_USE_AGENT_STORE",
     "True: ddprun serves the store; False: rank 0 has to, see --store."},
    {"TORCHELASTIC_ERROR_FILE",
     "Where the worker may write why it fails; the report of a failure shows it."},
    {"TORCHELASTIC_SIGNALS_TO_HANDLE", "--signals_to_handle."},
    {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1, if it is not set."},
    {"OMP_NUM_THREADS", "1 where a node has several workers, if it is not set."},
    {"CUDA_VISIBLE_DEVICES", "The GPUs that the worker sees, if there are any: see --gpu_bind."},
    {"PYTHONPATH",
     "For Python: a folder is in front, which the interpreter takes out again: see "
     "--flight_recorder."},
    {"GLOO_SOCKET_IFNAME",
     "With several nodes, the interface towards the rendezvous, if it is not set."},
    {"PMI_RANK, PMI_SIZE, PMI_FD, PMIX_..., OMPI_COMM_WORLD_...",
     "What ranks of MPI need to find each other: see --mpi."},
    {"NOTIFY_SOCKET",
     "Where the worker may send heartbeats, as to systemd, if it is not set: see --hang_timeout."},
});

constexpr std::string_view kVariables =
    "Most flags have a variable, in brackets after their description, that sets their default. An "
    "empty variable counts as not set. ddprun also reads:";

constexpr auto kReadVariables = std::to_array<ItemText>({
    {"PYTHON_EXEC", "The Python interpreter [default: the first python3 in PATH]."},
    {"DDPRUN_SECRET", "The secret of the job itself: see --secret_file."},
    {"DDPRUN_ETCD_USER", "NAME:PASSWORD for --rdzv_backend etcd."},
    {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "Sets the default of --prefix, as under torchrun."},
    {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1: --store worker, as under torchrun."},
    {"TORCHELASTIC_ENABLE_FILE_TIMER",
     "1: runs the timers that workers set by PyTorch's FileTimerClient, through the named pipe "
     "TORCHELASTIC_TIMER_FILE."},
    {"NO_COLOR, CLICOLOR, CLICOLOR_FORCE, FORCE_COLOR", "Whether ddprun has colours: see --color."},
    {"TMPDIR", "Folder of the temporary --log_dir [default: /tmp]."},
    {"XDG_RUNTIME_DIR",
     "Folder of the sockets of running jobs, which ddprun status and the like ask [default: "
     "/tmp]."},
});

constexpr auto kExitCodes = std::to_array<ItemText>({
    {"0", "All workers succeeded."},
    {"the failed worker's", "A worker failed, this one first; 128 + n if signal n killed it."},
    {"128 + n",
     "Signal n stopped ddprun. After Ctrl-C on a terminal it dies by SIGINT, which shells show as "
     "130."},
    {"1", "The job ended and had no place for this node."},
    {"2", "Wrong usage."},
    {"124", "A rendezvous or a hang timed out."},
    {"125", "ddprun itself failed; also: its port is in use, or its output could not be written."},
    {"126", "The program cannot be executed."},
    {"127", "The program was not found."},
});

constexpr std::string_view kExamples =
    "Four workers on this node, with at most three restarts:\n\n"
    "    ddprun --nproc_per_node 4 --max_restarts 3 train.py --lr 0.1\n\n"
    "Two nodes with a worker for each GPU; the same command on both:\n\n"
    "    ddprun --nnodes 2 --nproc_per_node gpu --rdzv_endpoint node0:29500 ./train\n\n"
    "The same by one command, which starts both by ssh:\n\n"
    "    ddprun --hosts node0,node1 --nproc_per_node gpu ./train\n\n"
    "Between two and four nodes; any of them may be lost, as the rendezvous is elsewhere:\n\n"
    "    ddprun serve --rdzv_endpoint :29500 --nnodes 2:4\n"
    "    ddprun --nnodes 2:4 --rdzv_endpoint SERVER:29500 --max_restarts 3 ./train\n\n"
    "Where the workers of a job that seems to hang are:\n\n"
    "    ddprun stacks";

/// The flags in the short help, `ddprun -h`.
constexpr auto kMostUsedFlags = std::to_array<ItemText>({
    {"nproc_per_node", "workers on this node"},
    {"nnodes", "nodes: a number, or from MIN to MAX"},
    {"rdzv_endpoint", "where the nodes meet: an address of one of them"},
    {"hosts", "start all nodes from here, by ssh"},
    {"preload", "import Python modules once on each node"},
    {"max_restarts", "restarts after a failure, for the whole job"},
    {"hang_timeout", "no progress for this long is a failure"},
    {"shutdown_timeout", "time to exit before SIGKILL"},
    {"log_dir", "where log files go"},
    {"tee", "streams to a log file and here; 3: both"},
    {"config", "values of flags in a file"},
    {"dry_run", "show what would be run"},
});

constexpr std::string_view kShortExamples =
    "    ddprun --nproc_per_node 4 train.py --lr 0.1\n\n"
    "    ddprun --nnodes 2 --nproc_per_node gpu --rdzv_endpoint node0:29500 ./train\n\n"
    "Run the second one on each node. ddprun --help shows all flags, man ddprun the manual.";

constexpr std::string_view kServeDescription =
    "Runs only the rendezvous of a job, without workers. The nodes give this host as their "
    "--rdzv_endpoint, and any of them may be lost. Give --nnodes and --rdzv_id as on the nodes. It "
    "exits when the job ends, with the job's exit code. To run a program called serve, use ddprun "
    "./serve or ddprun -- serve.";

constexpr std::string_view kDoctorDescription =
    "Checks whether a job with these options would work: on one node, or on several, with the same "
    "command on each, or one command with --hosts. Compares program, versions and settings of the "
    "nodes, tries the connections between them, and prints what is wrong and what to do. Runs no "
    "program. To run a program called doctor, use ddprun ./doctor or ddprun -- doctor.\n\n"
    "Exit code: 0; 1 if a check failed (warnings do not count); 125 if the doctor itself failed.";

constexpr std::string_view kSecretDescription =
    "Makes a secret of 256 random bits for the --secret_file of a job's nodes: prints it, or "
    "writes it to a new file that only its owner may read.";

constexpr auto kManifestUsage = std::to_array<std::string_view>({
    "ddprun manifest job|jobset|trainjob --name NAME --image IMAGE [options]",
    "                [--] program [args...]",
});

constexpr std::string_view kManifestDescription =
    "Prints the Kubernetes manifest of a job, for kubectl apply: a pod for each node, in which "
    "ddprun runs the program. job: an Indexed Job and its Service; jobset: a JobSet; trainjob: a "
    "TrainJob of Kubeflow's Trainer and its runtime. To run a program called manifest, use ddprun "
    "./manifest or ddprun -- manifest.";

constexpr std::string_view kManifestOptionsText =
    "All other options are those of ddprun in the pods, such as --nnodes MIN:MAX, --nproc_per_node "
    "and --max_restarts: see ddprun(1).";

constexpr std::string_view kVerbsDescription =
    "These commands, on any host of a running job, ask it about all its nodes. JOB is a job's "
    "--rdzv_id (without one, the name of its program), or the pid of its ddprun. JOB may be left "
    "out if only one job runs on this host. To run a program of such a name, use ddprun ./NAME or "
    "ddprun -- NAME.";

}  // namespace ddprun::cli
