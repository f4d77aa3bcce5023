// SPDX-License-Identifier: Apache-2.0
// Environments of processes of real jobs, shortened to the variables that matter.
#include "engine/detect.h"

#include <algorithm>

#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"

namespace ddprun::engine {
namespace {

using Environment = std::map<std::string, std::string, std::less<>>;

/// `files` also has the output of commands.
DetectionInput on(const std::string& host, Environment environment,
                  const std::map<std::string, std::string>& files = {}) {
  const auto look_up = [files](const std::string& name) {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
  return {std::move(environment), host, look_up, [look_up](const std::vector<std::string>& words) {
            return look_up(words.front() + " " + words[1] + " " + words[2]);
          }};
}

Allocation found(const DetectionInput& input, std::optional<Engine> wanted = std::nullopt) {
  const auto allocation = must(detect(wanted, input));
  REQUIRE(allocation);
  return *allocation;
}

std::string refusal(const DetectionInput& input, std::optional<Engine> wanted = std::nullopt) {
  const auto allocation = detect(wanted, input);
  REQUIRE_FALSE(allocation.has_value());
  CHECK(allocation.error().code == Errc::usage);
  CHECK(allocation.error().message.find('\n') == std::string::npos);
  return allocation.error().message;
}

template <class T>
void check(const std::optional<Sourced<T>>& known, const T& value, const std::string& source) {
  REQUIRE(known);
  CHECK(known->value == value);
  CHECK(known->source == source);
}

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

const Environment kSlurmStep = {{"SLURM_JOB_ID", "4711"},
                                {"SLURM_JOB_NODELIST", "gpu[06-09]"},
                                {"SLURM_JOB_NUM_NODES", "4"},
                                {"SLURM_STEP_ID", "0"},
                                {"SLURM_STEP_NODELIST", "gpu[07-09]"},
                                {"SLURM_STEP_NUM_NODES", "3"},
                                {"SLURM_STEP_TASKS_PER_NODE", "1(x3)"},
                                {"SLURM_NODEID", "1"},
                                {"SLURMD_NODENAME", "gpu08"},
                                {"SLURM_GPUS_ON_NODE", "8"},
                                {"SLURM_RESTART_COUNT", "2"},
                                {"SLURM_JOB_END_TIME", "1795394319"}};

const Environment kSlurmBatch = {{"SLURM_JOB_ID", "4711"},
                                 {"SLURM_JOB_NODELIST", "rack[0-1]node[1-2]"},
                                 {"SLURM_JOB_NUM_NODES", "4"},
                                 {"SLURM_TASKS_PER_NODE", "1(x4)"},
                                 {"SLURMD_NODENAME", "rack0node1"}};

TEST_CASE("without an engine's variables no engine is detected") {
  CHECK_FALSE(must(detect(std::nullopt, on("here", {{"HOME", "/root"}, {"JOB_ID", "7"}}))));
  CHECK_FALSE(must(detect(std::nullopt, on("here", {{"SLURM_JOB_ID", ""}}))));
  CHECK_FALSE(must(detect(std::nullopt, on("a-1", {{"JOB_COMPLETION_INDEX", "1"}}))));
}

TEST_CASE("an engine that --engine names must be there") {
  CHECK(refusal(on("here", {}), Engine::slurm) ==
        "--engine slurm: SLURM_JOB_ID is not set, so this is not a job of it; leave --engine out");
  CHECK(found(on("gpu08", with(kSlurmStep, {{"FLUX_JOB_ID", "f1"}})), Engine::slurm).job ==
        "4711.0");
}

TEST_CASE("each engine has a name that is parsed back") {
  for (const Engine engine :
       {Engine::slurm, Engine::kubernetes, Engine::pbs, Engine::sge, Engine::lsf, Engine::flux}) {
    CHECK(parse_engine(name_of(engine)) == engine);
  }
  CHECK_FALSE(parse_engine("mesos"));
}

TEST_CASE("in a step of Slurm the step's nodes count, and their order gives the ranks") {
  const Allocation job = found(on("host-of-gpu08", kSlurmStep));
  CHECK(job.engine == Engine::slurm);
  CHECK(job.job == "4711.0");
  CHECK(job.on_every_node);
  CHECK(job.hosts == Hosts{"gpu07", "gpu08", "gpu09"});
  check(job.nodes, 3, "SLURM_STEP_NODELIST");
  check(job.node_rank, 1, "SLURM_STEP_NODELIST");
  check(job.master, std::string("gpu07"), "SLURM_STEP_NODELIST");
  check(job.gpus, 8, "SLURM_GPUS_ON_NODE");
  check(job.reruns, 2, "SLURM_RESTART_COUNT");
  CHECK(job.deadline->value.time_since_epoch() == std::chrono::seconds(1'795'394'319));
  CHECK(job.grace == std::chrono::seconds(25));
}

TEST_CASE("a task of a Slurm array is named by array and index, not by the array's number") {
  const Environment first = {{"SLURM_ARRAY_JOB_ID", "4711"}, {"SLURM_ARRAY_TASK_ID", "3"}};
  const Allocation task = found(on("gpu08", with(kSlurmStep, first)));
  CHECK(task.id == "4711_3");
  CHECK(std::ranges::count(task.deadline_query, "4711_3") == 1);
  // A task with a number of its own, or a job that has inherited the variables.
  const Environment other = {{"SLURM_ARRAY_JOB_ID", "4709"}, {"SLURM_ARRAY_TASK_ID", "3"}};
  CHECK(found(on("gpu08", with(kSlurmStep, other))).id == "4711");
}

TEST_CASE("a batch script of Slurm runs on the job's first node alone") {
  const Allocation job = found(on("rack0node1.cluster", kSlurmBatch));
  CHECK(job.job == "4711");
  CHECK_FALSE(job.on_every_node);
  CHECK(job.hosts == Hosts{"rack0node1", "rack0node2", "rack1node1", "rack1node2"});
  check(job.node_rank, 0, "SLURM_JOB_NODELIST");
  CHECK_FALSE(job.gpus);
  CHECK_FALSE(job.deadline);
}

TEST_CASE("the shell of salloc is in no step, on a login node or on the job's first node") {
  const Allocation login = found(on("login", without(kSlurmBatch, "SLURMD_NODENAME")));
  CHECK_FALSE(login.on_every_node);
  CHECK_FALSE(login.node_rank);
  CHECK(login.hosts.size() == 4);
  check(login.nodes, 4, "SLURM_JOB_NODELIST");

  const Allocation interactive =
      found(on("rack0node1", with(kSlurmBatch, {{"SLURM_STEP_ID", "4294967290"},
                                                {"SLURM_STEP_NODELIST", "rack0node1"},
                                                {"SLURM_STEP_NUM_NODES", "1"}})));
  CHECK(interactive.job == "4711");
  CHECK_FALSE(interactive.on_every_node);
  check(interactive.nodes, 4, "SLURM_JOB_NODELIST");
  check(interactive.node_rank, 0, "SLURM_JOB_NODELIST");
}

TEST_CASE("Slurm tells all nodes of a job of several components only in a step") {
  const Environment more = {{"SLURM_HET_SIZE", "3"}};
  const Allocation script = found(on("rack0node1", with(kSlurmBatch, more)));
  CHECK(script.only_a_part ==
        "SLURM_HET_SIZE=3, and ddprun starts no agents on several components: use srun "
        "--het-group=0-2 --ntasks-per-node=1 ddprun");
  CHECK_FALSE(script.nodes);
  CHECK(found(on("gpu08", with(kSlurmStep, more))).hosts.size() == 3);
  CHECK(found(on("gpu08", with(kSlurmStep, more))).only_a_part.empty());
}

TEST_CASE("impossible values of Slurm's variables are refused in one sentence") {
  const std::string none = "; --engine none starts ddprun without the engine";
  // A shell that inherited the variables of a step elsewhere.
  CHECK(refusal(on("login", without(kSlurmStep, "SLURMD_NODENAME"))) ==
        "this host, login, is not one of the 3 in SLURM_STEP_NODELIST (gpu07 ...): the "
        "allocation is elsewhere" +
            none);
  CHECK(refusal(on("gpu08", with(kSlurmStep, {{"SLURM_STEP_NUM_NODES", "2"}}))) ==
        "SLURM_STEP_NUM_NODES=2, but SLURM_STEP_NODELIST has 3 hosts" + none);
  CHECK(refusal(on("gpu08", with(kSlurmStep, {{"SLURM_STEP_TASKS_PER_NODE", "1,8,1"}}))) ==
        "srun started 8 tasks on a node, and ddprun starts a node's workers itself: use srun "
        "--ntasks-per-node=1" +
            none);
  CHECK(refusal(on("gpu08", with(kSlurmStep, {{"SLURM_STEP_NODELIST", "gpu[07-"}}))) ==
        "SLURM_STEP_NODELIST: invalid list of hosts in 'gpu[07-'" + none);
  CHECK(refusal(on("gpu08", with(kSlurmStep, {{"SLURM_JOB_NODELIST", "gpu[01,08-09]"}}))) ==
        "SLURM_STEP_NODELIST=gpu[07-09] has gpu07, which SLURM_JOB_NODELIST=gpu[01,08-09] does not "
        "have: "
        "the step is another job's" +
            none);
  CHECK(refusal(on("gpu08", without(kSlurmStep, "SLURM_STEP_NODELIST"))) ==
        "SLURM_JOB_ID is set, but not SLURM_STEP_NODELIST" + none);
  CHECK(refusal(on("gpu08", with(kSlurmStep, {{"SLURM_GPUS_ON_NODE", "many"}}))) ==
        "SLURM_GPUS_ON_NODE=many is not a number from 0 to 4096" + none);
}

const Environment kIndexed = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                              {"JOB_COMPLETION_INDEX", "3"}};
const std::map<std::string, std::string> kPodHosts = {
    {"/etc/hosts", "127.0.0.1\tlocalhost\n10.1.2.3\ttrain-3.svc.ns.svc.cluster.local\ttrain-3\n"}};

TEST_CASE("a pod of an Indexed Job has its index as rank, and index 0 is the master") {
  const Allocation job = found(on("train-3", kIndexed, kPodHosts));
  CHECK(job.engine == Engine::kubernetes);
  CHECK(job.on_every_node);
  CHECK(job.job == "train.svc.ns.svc.cluster.local");
  check(job.node_rank, 3, "JOB_COMPLETION_INDEX");
  CHECK(job.master->value == "train-0.svc.ns.svc.cluster.local");
  CHECK_FALSE(job.nodes);
}

TEST_CASE("a pod of a JobSet finds pod 0 of its job under the JobSet's domain") {
  const Allocation job =
      found(on("set-workers-0-1", with(kIndexed, {{"JOB_COMPLETION_INDEX", "1"}}),
               {{"/etc/hosts", "10.1.2.3 set-workers-0-1.set.ns.svc.cluster.local"}}));
  CHECK(job.master->value == "set-workers-0-0.set.ns.svc.cluster.local");
  check(job.node_rank, 1, "JOB_COMPLETION_INDEX");
}

TEST_CASE("a pod without a domain, or with another index than its name, is refused") {
  CHECK(tests::contains(refusal(on("train-3", kIndexed)), "need a headless Service"));
  CHECK(tests::contains(
      refusal(on("train-3", kIndexed, {{"/etc/hosts", "10.1.2.3 train-31.svc train-31\n"}})),
      "/etc/hosts has no domain for this pod, train-3"));
  CHECK(tests::contains(refusal(on("train-4", kIndexed, kPodHosts)),
                        "JOB_COMPLETION_INDEX=3, but this pod's host name, train-4"));
}

TEST_CASE("a pod of Volcano has the hosts of its own task") {
  const Environment volcano = {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                               {"VC_TASK_INDEX", "1"},
                               {"VC_PS_HOSTS", "job-ps-0.job"},
                               {"VC_WORKER_HOSTS", "job-worker-0.job,job-worker-1.job"},
                               {"VC_WORKER_NUM", "2"}};
  const Allocation job = found(on("job-worker-1", volcano));
  CHECK(job.hosts == Hosts{"job-worker-0.job", "job-worker-1.job"});
  check(job.node_rank, 1, "VC_WORKER_HOSTS");
  check(job.nodes, 2, "VC_WORKER_HOSTS");
  check(job.master, std::string("job-worker-0.job"), "VC_WORKER_HOSTS");
  CHECK(tests::contains(refusal(on("job-worker-0", volcano)),
                        "VC_TASK_INDEX=1, but this host has place 0 in VC_WORKER_HOSTS"));
  CHECK(tests::contains(refusal(on("elsewhere", volcano)), "plugins env and svc"));
}

TEST_CASE("PBS lists a host for each process, and runs scripts on the first host, tasks on all") {
  const Environment script = {{"PBS_ENVIRONMENT", "PBS_BATCH"},
                              {"PBS_JOBID", "604319.head"},
                              {"PBS_JOBCOOKIE", "6B8C4F9D774B0AA5"},
                              {"PBS_MOMPORT", "15003"},
                              {"PBS_NODEFILE", "/nodes"},
                              {"PBS_NODENUM", "0"},
                              {"PBS_TASKNUM", "1"},
                              {"OMP_NUM_THREADS", "8"}};
  const std::map<std::string, std::string> files = {{"/nodes", "n1\nn1\nn2\nn2\nn1\n"}};
  const Allocation job = found(on("n1.cluster", script, files));
  CHECK(job.engine == Engine::pbs);
  CHECK(job.job == "604319.head");
  CHECK_FALSE(job.on_every_node);
  CHECK(job.hosts == Hosts{"n1", "n2"});
  check(job.nodes, 2, "PBS_NODEFILE");
  check(job.node_rank, 0, "PBS_NODEFILE");
  check(job.master, std::string("n1"), "PBS_NODEFILE");
  // Torque's script has this variable, too.
  CHECK_FALSE(found(on("n1", with(script, {{"PBS_VNODENUM", "0"}}), files)).on_every_node);

  const Allocation task =
      found(on("n2", with(script, {{"PBS_NODENUM", "1"}, {"PBS_TASKNUM", "536870913"}}), files));
  CHECK(task.on_every_node);
  check(task.node_rank, 1, "PBS_NODEFILE");
  CHECK(found(on("n1", with(script, {{"PBS_TASKNUM", "2"}}), files)).on_every_node);

  CHECK(tests::contains(refusal(on("n2", script)), "PBS_NODEFILE=/nodes cannot be read"));
  CHECK(tests::contains(refusal(on("n3", script, files)), "this host, n3, is not one of the 2"));
  CHECK(tests::contains(refusal(on("n1", with(script, {{"PBS_TASKNUM", "x"}}), files)),
                        "PBS_TASKNUM=x is not a number"));
}

TEST_CASE("SGE has a table of hosts, and tells how often it started the job") {
  const Environment sge = {{"JOB_ID", "9"}, {"PE_HOSTFILE", "/pe"}, {"RESTARTED", "1"}};
  const Allocation job =
      found(on("b", sge, {{"/pe", "a 4 all.q@a UNDEFINED\nb 4 all.q@b UNDEFINED\n"}}));
  CHECK(job.engine == Engine::sge);
  check(job.node_rank, 1, "PE_HOSTFILE");
  check(job.master, std::string("a"), "PE_HOSTFILE");
  check(job.reruns, 1, "RESTARTED");
}

TEST_CASE("LSF has pairs, or a file of slots") {
  const Allocation pairs = found(on("h2", {{"LSB_JOBID", "5"}, {"LSB_MCPU_HOSTS", "h1 8 h2 8"}}));
  check(pairs.node_rank, 1, "LSB_MCPU_HOSTS");
  const Allocation lines = found(on("h2", {{"LSB_JOBID", "5"}, {"LSB_DJOB_HOSTFILE", "/slots"}},
                                    {{"/slots", "h1\nh1\nh2\n"}}));
  check(lines.nodes, 2, "LSB_DJOB_HOSTFILE");
  CHECK(tests::contains(refusal(on("h2", {{"LSB_JOBID", "5"}})), "neither LSB_MCPU_HOSTS nor"));
}

TEST_CASE("a task of Flux has its rank, its hosts by a command, and may be in a job of Slurm") {
  const Environment flux = {{"FLUX_JOB_ID", "f2oFpsLwsLm"},
                            {"FLUX_JOB_NNODES", "2"},
                            {"FLUX_JOB_SIZE", "2"},
                            {"FLUX_TASK_RANK", "1"},
                            {"FLUX_TASK_LOCAL_ID", "0"},
                            {"FLUX_ENCLOSING_ID", "f1"},
                            {"FLUX_URI", "local:///run/flux/local"}};
  const std::map<std::string, std::string> hosts = {{"flux hostlist local", "gpu[07-08]\n"}};
  const Allocation job = found(on("gpu08", with(kSlurmStep, flux), hosts));
  CHECK(job.engine == Engine::flux);
  CHECK(job.on_every_node);
  check(job.nodes, 2, "FLUX_JOB_NNODES");
  check(job.node_rank, 1, "FLUX_TASK_RANK");
  check(job.master, std::string("gpu07"), "flux hostlist local");
  CHECK_FALSE(found(on("gpu08", flux)).master);         // no such command in this container
  CHECK_FALSE(found(on("gpu07", flux, hosts)).master);  // somebody has mapped the tasks otherwise
  CHECK(tests::contains(refusal(on("gpu08", with(flux, {{"FLUX_JOB_SIZE", "16"}}))),
                        "--tasks-per-node=1"));
}

TEST_CASE(
    "a batch script of Flux runs on an instance's first host, and a command prints the hosts") {
  const Environment script = {{"FLUX_ENCLOSING_ID", "f2oFpsLwsLm"},
                              {"FLUX_URI", "local:///tmp/flux-yMvT/local-0"}};
  const Allocation job = found(on("gpu07", script, {{"flux hostlist local", "gpu[07-09]\n"}}));
  CHECK(job.engine == Engine::flux);
  CHECK(job.job == "f2oFpsLwsLm");
  CHECK_FALSE(job.on_every_node);
  check(job.nodes, 3, "flux hostlist local");
  check(job.node_rank, 0, "flux hostlist local");
  CHECK(
      tests::contains(refusal(on("gpu07", script)),
                      "FLUX_ENCLOSING_ID=f2oFpsLwsLm, but 'flux hostlist local' prints no hosts"));
  CHECK(tests::contains(refusal(on("login", script, {{"flux hostlist local", "gpu[07-09]"}})),
                        "this host, login, is not one of the 3"));
}

TEST_CASE(
    "ports are the same on every node, differ between jobs, and are outside the clients' range") {
  const auto ports = ports_of("4711.0");
  CHECK(ports.size() > 1);
  CHECK(ports_of("4711.0") == ports);
  CHECK(ports_of("4711.1").front() != ports.front());
  for (const std::uint16_t port : ports) {
    CHECK(port >= 10'000);
    CHECK(port < 32'768);
    CHECK(std::count(ports.begin(), ports.end(), port) == 1);
  }
}

}  // namespace
}  // namespace ddprun::engine
