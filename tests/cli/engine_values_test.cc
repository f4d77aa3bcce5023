// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <csignal>

#include "tests/catch.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

using Environment = std::vector<std::string>;

const Environment kStep = {"SLURM_JOB_ID=4711",
                           "SLURM_STEP_ID=0",
                           "SLURM_STEP_NODELIST=gpu-[06-07]",
                           "SLURM_STEP_NUM_NODES=2",
                           "SLURM_STEP_TASKS_PER_NODE=1(x2)",
                           "SLURM_GPUS_ON_NODE=8"};

Environment with(Environment environment, const Environment& more) {
  environment.insert(environment.begin(), more.begin(), more.end());
  return environment;
}

TEST_CASE("in a step of Slurm, ddprun needs no flags") {
  const agent::JobSpec spec = job({"train"}, host(kStep));
  CHECK(spec.min_nodes == 2);
  CHECK(spec.max_nodes == 2);
  CHECK(spec.node_rank == 1);
  CHECK(spec.master_addr == "gpu-06");
  CHECK(spec.master_port >= 10'000);
  CHECK(spec.master_port < 32'768);
  CHECK(spec.is_host == false);
  CHECK(spec.run_id == "slurm-4711.0");
  CHECK(spec.local_size == 8);
  CHECK(spec.stop_grace == 25s);
}

TEST_CASE("each flag and each flag's variable overrides the engine's value") {
  const agent::JobSpec spec =
      job({"--nproc_per_node", "3", "--rdzv_id", "mine", "--shutdown_timeout", "7", "--nnodes",
           "1:2", "train"},
          host(with(kStep, {"PET_RDZV_ENDPOINT=head:29500", "PET_NODE_RANK=0"})));
  CHECK(spec.local_size == 3);
  CHECK(spec.run_id == "mine");
  CHECK(spec.stop_grace == 7s);
  CHECK(spec.min_nodes == 1);
  CHECK(spec.node_rank == 0);
  CHECK(spec.master_addr == "head");
  CHECK(spec.master_port == 29'500);
  CHECK_FALSE(spec.is_host);
}

TEST_CASE("a flag overrides only its own value") {
  const agent::JobSpec all = job({"train"}, host(kStep));
  struct Row {
    const char* flag;
    const char* value;
    std::string (*shown)(const agent::JobSpec& spec);
  };
  const Row rows[] = {
      {"--node_rank", "0", [](const agent::JobSpec& s) { return std::to_string(*s.node_rank); }},
      {"--nproc_per_node", "3",
       [](const agent::JobSpec& s) { return std::to_string(s.local_size); }},
      {"--master_addr", "head", [](const agent::JobSpec& s) { return s.master_addr; }},
      {"--master_port", "77",
       [](const agent::JobSpec& s) { return std::to_string(s.master_port); }},
      {"--rdzv_id", "mine", [](const agent::JobSpec& s) { return s.run_id; }},
      {"--shutdown_timeout", "7",
       [](const agent::JobSpec& s) { return std::to_string(s.stop_grace / 1s); }},
  };
  for (const Row& given : rows) {
    INFO(given.flag);
    const agent::JobSpec spec = job({given.flag, given.value, "train"}, host(kStep));
    CHECK(spec.max_nodes == 2);
    for (const Row& other : rows) {
      CHECK(other.shown(spec) == (&other == &given ? given.value : other.shown(all)));
    }
  }
}

TEST_CASE("the rendezvous has further ports unless the user gives its port or host") {
  const agent::JobSpec spec = job({"train"}, host(kStep));
  CHECK(spec.more_ports.size() == 3);
  CHECK(job({"train"}, host(with(kStep, {"SLURMD_NODENAME=gpu-06"}))).more_ports ==
        spec.more_ports);
  for (const Words& words :
       {Words{"--master_port", "29500", "train"}, Words{"--rdzv_endpoint", "head", "train"}}) {
    CHECK(job(words, host(kStep)).more_ports.empty());
  }
}

TEST_CASE("if the engine does not count GPUs, a node has a worker for each GPU, or one worker") {
  const Environment pbs = {"PBS_JOBID=7", "PBS_NODEFILE=/nodes", "PBS_TASKNUM=2"};
  const auto on = [&pbs](std::vector<std::string> gpus) {
    cli::Host node = host(pbs, std::move(gpus));
    node.read_file = [](const std::string&) { return "gpu-06\ngpu-07\n"; };
    return node;
  };
  CHECK(job({"train"}, on({"0", "1"})).local_size == 2);
  CHECK(job({"train"}, on({})).local_size == 1);
  CHECK(job({"--nproc_per_node", "5", "train"}, on({"0", "1"})).local_size == 5);
  CHECK(tests::contains(printed({"--dry_run", "train"}, on({"0"})),
                        "pbs job 7: --nproc_per_node gpu-or-1 (the GPUs that this node has)"));
}

TEST_CASE("a job of one node ignores the nodes and the id of the engine's job") {
  for (const char* flag : {"--standalone", "--nnodes=1"}) {
    const agent::JobSpec spec = job({flag, "train"}, host(kStep));
    INFO(flag);
    CHECK(spec.max_nodes == 1);
    CHECK_FALSE(spec.node_rank);
    CHECK(spec.run_id == "none");
    CHECK(spec.local_size == 8);
  }
}

TEST_CASE("the value none of --engine ignores the engine, and a named engine has to be the job's") {
  const agent::JobSpec spec = job({"--engine", "none", "train"}, host(kStep));
  CHECK(spec.max_nodes == 1);
  CHECK(spec.local_size == 1);
  CHECK(spec.stop_grace == 30s);
  CHECK(job({"train"}, host(with(kStep, {"DDPRUN_ENGINE=none"}))).max_nodes == 1);
  CHECK(refusal({"--engine", "pbs", "train"}, host(kStep)) ==
        "--engine pbs: PBS_JOBID is not set, so this is not a job of it; leave --engine out");
  CHECK(refusal({"--engine", "mesos", "train"}) ==
        "--engine expects auto, none, slurm, kubernetes, pbs, sge, lsf or flux, not 'mesos'");
}

TEST_CASE("in a batch script of several nodes, ddprun says how to start it on every node") {
  const Environment batch = {"SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=gpu-[06-07]",
                             "SLURM_JOB_NUM_NODES=2"};
  CHECK(refusal({"train"}, host(batch)) ==
        "slurm job 4711 has 2 nodes, and this is its first one alone: start ddprun on every node, "
        "with srun --ntasks-per-node=1 ddprun ..., or give --nnodes 1 or --engine none");
  CHECK(job({"--nnodes", "1", "train"}, host(batch)).max_nodes == 1);
  CHECK(job({"train"}, host({"SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=gpu-07"})).max_nodes == 1);
}

TEST_CASE("in a job of several components, ddprun starts no agents on other nodes") {
  cli::Host script = host({"SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=gpu-07", "SLURM_HET_SIZE=2"});
  for (const Words& words : {Words{"train"}, {"--nnodes", "2", "train"}}) {
    CHECK(refusal(words, script).starts_with("SLURM_HET_SIZE=2, and ddprun starts no agents on "));
  }
  CHECK(job({"--standalone", "train"}, script).max_nodes == 1);
  script.environment = {"SLURM_JOB_ID=4711", "SLURM_HET_SIZE=2"};  // as in salloc's shell
  CHECK(job({"--nnodes", "1", "train"}, script).max_nodes == 1);
  const Words by_hand = {"--nnodes", "2", "--rdzv_endpoint", "gpu-07", "train"};
  CHECK(job(by_hand, script).master_addr == "gpu-07");
}

TEST_CASE("if the engine does not say how many nodes the job has, ddprun asks for --nnodes") {
  cli::Host pod = host({"KUBERNETES_SERVICE_HOST=10.0.0.1", "JOB_COMPLETION_INDEX=1"});
  pod.name = "train-1";
  pod.read_file = [](const std::string&) { return "10.1.2.3 train-1.svc train-1\n"; };
  CHECK(refusal({"train"}, pod) ==
        "kubernetes does not say how many nodes job train.svc has: give --nnodes (1: each on its "
        "own)");
  const agent::JobSpec spec = job({"--nnodes", "2", "train"}, pod);
  CHECK(spec.node_rank == 1);
  CHECK(spec.master_addr == "train-0.svc");
  CHECK(spec.is_host == false);
  pod.name = "train-0";
  pod.environment.back() = "JOB_COMPLETION_INDEX=0";
  pod.read_file = [](const std::string&) { return "10.1.2.2 train-0.svc train-0\n"; };
  CHECK(job({"--nnodes", "2", "train"}, pod).is_host == true);
}

cli::Host with_munge(cli::Host on) {
  on.seal = [](const Secret& secret, const std::string& run_id) -> Result<std::string> {
    return "sealed " + std::to_string(secret.view().size()) + " of " + run_id;
  };
  return on;
}

TEST_CASE("in a job of Slurm with munge, several nodes have a secret that ddprun made") {
  const agent::JobSpec spec = job({"train"}, with_munge(host(kStep)));
  CHECK(spec.security);
  CHECK(spec.sealed_secret == "sealed 32 of slurm-4711.0");
  CHECK(spec.origins.back() == "the job has a secret (munge)");
  const agent::JobSpec other = job({"train"}, with_munge(host(kStep)));
  CHECK(spec.security->key().bytes.view() != other.security->key().bytes.view());
  CHECK(job({"--store", "tunnel", "train"}, with_munge(host(kStep))).security);

  // In a batch script, `ddprun` starts each agent as a step of one node, with the job's --nnodes.
  const Environment task = {"SLURM_JOB_ID=4711", "SLURM_STEP_ID=0", "SLURM_STEP_NODELIST=gpu-07",
                            "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=1"};
  const Words agent = {"--nnodes", "2:2", "--rdzv_endpoint", "gpu-06:29500", "train"};
  CHECK(job(agent, with_munge(host(task))).security);
  CHECK(served({"serve", "--nnodes", "2", "--rdzv_endpoint", ":29500"}, with_munge(host(task)))
            .security);
}

TEST_CASE("without munge, without Slurm or on one node, ddprun makes no secret") {
  const agent::JobSpec without = job({"train"}, host(kStep));
  CHECK_FALSE(without.security);
  CHECK(without.sealed_secret.empty());
  CHECK(without.origins.back() == "the job has no secret (there is no munge here)");
  CHECK(tests::contains(refusal({"--store", "tunnel", "train"}, host(kStep)),
                        "--store tunnel encrypts with the job's secret, and there is none"));
  for (const Words& words :
       {Words{"--nnodes", "1", "train"}, Words{"--standalone", "train"},
        Words{"--engine", "none", "--nnodes", "2", "--rdzv_endpoint", "x", "train"}}) {
    CHECK_FALSE(job(words, with_munge(host(kStep))).security);
  }
  CHECK_FALSE(job({"--nnodes", "2", "--rdzv_endpoint", "x", "train"}, with_munge(host())).security);
}

TEST_CASE("the user's secret replaces the one that munge would seal") {
  cli::Host on = with_munge(host(kStep));
  on.secret = std::make_shared<Secret>(std::string(64, 'a'));
  const agent::JobSpec spec = job({"train"}, on);
  CHECK(spec.security);
  CHECK(spec.sealed_secret.empty());
  CHECK(std::ranges::none_of(
      spec.origins, [](const std::string& line) { return tests::contains(line, "munge"); }));
}

TEST_CASE("a dry run names the engine's source of each value") {
  CHECK(tests::contains(printed({"--dry_run", "--node_rank", "1", "train"}, host(kStep)),
                        "slurm job 4711.0: --nproc_per_node 8 (SLURM_GPUS_ON_NODE), "
                        "--shutdown_timeout 25 (less than its own), --nnodes 2 "
                        "(SLURM_STEP_NODELIST), --master_addr gpu-06 (SLURM_STEP_NODELIST), "
                        "--master_port "));
}

TEST_CASE("by default, workers get SIGUSR2 90 s before the time limit of a job of Slurm") {
  const agent::Deadline deadline =
      job({"train"}, host(with(kStep, {"SLURM_JOB_END_TIME=1795394319"}))).deadline.value();
  CHECK(deadline.signal == SIGUSR2);
  CHECK(deadline.notice == 90s);
  CHECK(deadline.job == "slurm job 4711");
  CHECK(deadline.end == std::chrono::sys_seconds(1'795'394'319s));

  const agent::Deadline asked =
      job({"--deadline_signal", "usr1@2min", "train"}, host(kStep)).deadline.value();
  CHECK(asked.signal == SIGUSR1);
  CHECK(asked.notice == 120s);
  CHECK_FALSE(asked.end);
  CHECK(asked.query == std::vector<std::string>{"SLURM_TIME_FORMAT=%s", "squeue", "--noheader",
                                                "--jobs", "4711", "--format=%e"});
  CHECK(job({"--deadline_signal=TERM", "train"}, host(kStep)).deadline->notice == 90s);
  CHECK_FALSE(job({"--deadline_signal", "none", "train"}, host(kStep)).deadline);
  CHECK_FALSE(job({"--engine", "none", "train"}, host(kStep)).deadline);
  CHECK_FALSE(job({"train"}).deadline);
}

TEST_CASE("the flag --deadline_signal takes only one signal that can be caught, and a time") {
  for (const char* value : {"USR2@", "USR2@soon", "USR1,USR2", "@90s", "USR3", "KILL@5s", "90s"}) {
    INFO(value);
    CHECK(tests::contains(refusal({"--deadline_signal", value, "train"}), "--deadline_signal "));
  }
}

TEST_CASE("the node of rank 0 requeues a job of Slurm, and other jobs cannot be requeued") {
  const Environment first = with(kStep, {"SLURMD_NODENAME=gpu-06", "SLURM_RESTART_COUNT=2"});
  const RequeueSpec requeue = job({"--requeue", "3", "train"}, host(first)).requeue.value();
  CHECK(requeue.name == "slurm job 4711");
  CHECK(requeue.id == "4711");
  CHECK(requeue.most == 3);
  CHECK(requeue.so_far == 2);
  CHECK(requeue.deadline_signal == SIGUSR2);
  CHECK(requeue.notice == 90s);
  CHECK_FALSE(job({"--requeue", "3", "train"}, host(kStep)).requeue);
  CHECK_FALSE(job({"train"}, host(first)).requeue);
  const char* none = "--requeue is for jobs of Slurm, and this is not one: leave it out";
  CHECK(refusal({"--requeue", "3", "train"}) == none);
  CHECK(refusal({"--requeue", "3", "--engine", "none", "train"}, host(first)) == none);
  CHECK(refusal({"--requeue", "3", "--hosts", "a,b", "train"}) ==
        "--requeue does not work with --hosts");
  CHECK(tests::contains(refusal({"--requeue", "0", "train"}), "--requeue expects"));
}

TEST_CASE("a host that is not in the engine's list of nodes is refused") {
  cli::Host elsewhere = host(kStep);
  elsewhere.name = "login";
  CHECK(tests::contains(refusal({"train"}, elsewhere), "this host, login, is not one of the 2"));
  CHECK(job({"--engine", "none", "train"}, elsewhere).max_nodes == 1);
}

}  // namespace
}  // namespace ddprun
