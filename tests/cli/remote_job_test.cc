// SPDX-License-Identifier: Apache-2.0
#include "cli/remote_job.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "cli/line/secret.h"
#include "remote/job.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"

namespace ddprun {
namespace {

using Texts = std::vector<std::string>;

cli::Host launching(Texts environment = {"PATH=/bin", "HOME=/root"}) {
  cli::Host here = host(std::move(environment));
  here.executable = [] { return "/opt/ddprun"; };
  here.directory = [] { return "/work"; };
  here.read_file = [](const std::string&) { return "a slots=8\nb slots=4\n"; };
  return here;
}

remote::Job hosts(const Words& words, const cli::Host& on = launching()) {
  return std::get<remote::Job>(must(cli::parse(words, on)));
}

/// The agent's options before the program, by name.
std::map<std::string, std::string> options(const remote::HostSpec& host) {
  std::map<std::string, std::string> options;
  for (const std::string& word : host.order.arguments) {
    if (!word.starts_with("--")) break;
    options[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  return options;
}

TEST_CASE("each host gets the same program, its rank, and the address of the first one") {
  const remote::Job job = hosts({"--hosts", "me@a,b:4", "--max_restarts", "3", "train", "--x"});
  REQUIRE(job.hosts.size() == 2);
  CHECK(job.least == 2);
  CHECK(job.hosts[0].name == "me@a");
  CHECK(job.hosts[0].program == "/bin/ssh");
  CHECK(job.hosts[1].order.directory == "/work");
  CHECK(job.hosts[1].order.environment == Texts{"PATH=/bin"});
  auto first = options(job.hosts[0]), second = options(job.hosts[1]);
  CHECK(first["--node_rank"] == "0");
  CHECK(second["--node_rank"] == "1");
  CHECK(first["--nnodes"] == "2:2");
  CHECK(first["--rdzv_endpoint"].starts_with("a:"));
  CHECK(first["--rdzv_endpoint"] == second["--rdzv_endpoint"]);
  CHECK(first["--rdzv_id"] == second["--rdzv_id"]);
  CHECK(first["--rdzv_conf"].starts_with("is_host=true,more_ports="));
  CHECK(second["--rdzv_conf"].starts_with("is_host=false,more_ports="));
  CHECK(first["--rdzv_conf"].substr(strlen("is_host=true")) ==
        second["--rdzv_conf"].substr(strlen("is_host=false")));
  CHECK(first["--engine"] == "none");
  CHECK(first["--max_restarts"] == "3");
  CHECK_FALSE(first.contains("--hosts"));
  CHECK_FALSE(first.contains("--nproc_per_node"));
  CHECK(second["--nproc_per_node"] == "4");
  const Texts& words = job.hosts[1].order.arguments;
  CHECK(Texts(words.end() - 2, words.end()) == Texts{"train", "--x"});
}

TEST_CASE("agents get the flags that the user gives for all hosts") {
  const remote::Job job = hosts({"--hostfile", "hosts", "--nnodes", "1:2", "--nproc_per_node", "2",
                                 "--rdzv_endpoint", "head:1234", "--rdzv_id", "mine", "--rdzv_conf",
                                 "join_timeout=9", "--prefix=--role", "--", "train"});
  CHECK(job.least == 1);
  auto first = options(job.hosts[0]);
  CHECK(first["--nnodes"] == "1:2");
  CHECK(first["--nproc_per_node"] == "2");
  CHECK(first["--rdzv_endpoint"] == "head:1234");
  CHECK(first["--rdzv_id"] == "mine");
  CHECK(first["--rdzv_conf"] == "join_timeout=9");
  CHECK(first["--prefix"] == "--role");
  const Texts& words = job.hosts[0].order.arguments;
  CHECK(Texts(words.end() - 2, words.end()) == Texts{"--", "train"});
}

TEST_CASE("only the first host serves the page") {
  const remote::Job job = hosts({"--hosts", "a,b", "--web", "train"});
  CHECK(options(job.hosts[0])["--web"] == "127.0.0.1:0");
  CHECK_FALSE(options(job.hosts[1]).contains("--web"));
}

TEST_CASE("if there are spare hosts, no host has a fixed rank") {
  const remote::Job job = hosts({"--hosts", "a,b,c", "--nnodes", "2", "train"});
  for (const remote::HostSpec& host : job.hosts) CHECK_FALSE(options(host).contains("--node_rank"));
}

TEST_CASE("the agent on the launching host is started without ssh") {
  const remote::Job job = hosts({"--hosts", "gpu-07.cluster,b", "--ssh", "ssh -p 2222", "train"});
  CHECK(job.hosts[0].starter == Texts{"/opt/ddprun", "--remote_agent"});
  CHECK(job.hosts[1].starter[2] == "2222");
}

TEST_CASE("the flag --export names variables by name or by the beginning of their names") {
  const cli::Host here =
      launching({"PATH=/bin", "NCCL_DEBUG=INFO", "HOME=/root", "WANDB_KEY=k", "MY=x y"});
  CHECK(hosts({"--hosts", "a", "train"}, here).hosts[0].order.environment ==
        Texts{"PATH=/bin", "NCCL_DEBUG=INFO"});
  CHECK(
      hosts({"--hosts", "a", "--export", "MY,WANDB_*", "train"}, here).hosts[0].order.environment ==
      Texts{"PATH=/bin", "NCCL_DEBUG=INFO", "WANDB_KEY=k", "MY=x y"});
  CHECK(refusal({"--hosts", "a", "--export", "YOUR", "train"}, here) == "--export YOUR: not set");
}

TEST_CASE("flags that make no sense for several hosts are refused") {
  CHECK(refusal({"--hosts", "a,b"}, launching()) ==
        "no program to run on the hosts; see ddprun --help");
  CHECK(refusal({"--hosts", "localhost,b", "train"}, launching()) ==
        "'localhost' hosts the rendezvous, and the other hosts do not reach it by this name: give "
        "a name that they know");
  CHECK(refusal({"--hosts", "a,b", "--nnodes", "3", "train"}, launching()) ==
        "--nnodes needs 3 hosts, and 2 are named");
  CHECK(refusal({"--hosts", "a,b", "--node_rank", "1", "train"}, launching()) ==
        "--node_rank: the ranks are the order of the hosts; leave it out");
  CHECK(refusal({"--hosts", "a,b", "--standalone", "train"}, launching()) ==
        "--standalone means one node: leave out the hosts");
  CHECK(refusal({"--hosts", "a", "--hostfile", "f", "train"}, launching()) ==
        "--hosts and --hostfile: give one of the two");
  CHECK(tests::contains(refusal({"--hosts", "a,-b", "train"}, launching()), "'-b'"));
}

/// The secret that the agents of `job` get, or "".
std::string secret_of(const remote::Job& job) {
  return job.secret ? std::string(job.secret->view()) : "";
}

TEST_CASE("the secret is read here and sent to each host, and no command line shows it") {
  const std::string digits = "00112233445566778899aabbccddeeff";
  cli::Host here = launching();
  here.read_secret = [&](const std::string& path) { return cli::decode_secret(digits, path); };
  const remote::Job with_file = hosts({"--hosts", "a,b", "--secret_file", "f", "train"}, here);
  CHECK(secret_of(with_file) == digits);
  CHECK_FALSE(options(with_file.hosts[1]).contains("--secret_file"));
  CHECK_FALSE(tests::contains(cli::remote_text(with_file), digits));

  here.secret = std::make_shared<Secret>(digits);
  CHECK(secret_of(hosts({"--hosts", "a,b", "train"}, here)) == digits);
  CHECK(secret_of(hosts({"--hosts", "a,b", "train"})).empty());
  here.secret = std::make_shared<Secret>("too short");
  CHECK(tests::contains(refusal({"--hosts", "a,b", "train"}, here), "DDPRUN_SECRET has"));
}

TEST_CASE("SIGQUIT stops the agents of all hosts unless --signals_to_handle omits it") {
  CHECK(hosts({"--hosts", "a,b", "train"}).quit_stops);
  CHECK_FALSE(
      hosts({"--hosts", "a,b", "--signals_to_handle", "SIGTERM,SIGINT", "train"}).quit_stops);
}

TEST_CASE("a dry run shows the command that starts each host's agent") {
  const std::string text = printed({"--dry_run", "--hosts", "gpu-07,b", "train"}, launching());
  CHECK(tests::contains(text, "gpu-07: /opt/ddprun --remote_agent\n    ddprun --nnodes=2:2 "));
  CHECK(tests::contains(text, "b 'exec /opt/ddprun --remote_agent'\n    ddprun --nnodes=2:2 "));
}

TEST_CASE("in a batch script of Slurm, and in salloc's shell, srun starts the agents") {
  const Texts batch = {"SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=gpu-[07-08]",
                       "SLURM_JOB_NUM_NODES=2", "PATH=/bin"};
  const remote::Job job = hosts({"train"}, launching(batch));
  REQUIRE(job.hosts.size() == 2);
  CHECK(job.hosts[1].program == "/bin/srun");
  CHECK(job.hosts[1].starter[4] == "--nodelist=gpu-08");
  CHECK(job.hosts[1].order.environment.empty());
  CHECK(job.stop_grace == std::chrono::seconds(25));
  auto second = options(job.hosts[1]);
  CHECK(second["--rdzv_endpoint"].starts_with("gpu-07:"));
  CHECK_FALSE(second.contains("--engine"));

  cli::Host login = launching(batch);
  login.name = "login";
  CHECK(hosts({"train"}, login).hosts.size() == 2);
  CHECK(hosts({"--nnodes", "1:2", "train"}, login).least == 1);
  CHECK(::ddprun::job({"--nnodes", "1", "train"}, launching(batch)).max_nodes == 1);
  CHECK(::ddprun::job({"--nnodes", "2", "--rdzv_endpoint", "x", "train"}, launching(batch))
            .master_addr == "x");
}

TEST_CASE("the command that starts the agents of a job of Slurm requeues it") {
  const Texts batch = {"SLURM_JOB_ID=4711", "SLURM_JOB_NODELIST=gpu-[07-08]", "PATH=/bin"};
  const remote::Job job = hosts({"--requeue", "2", "train"}, launching(batch));
  CHECK(job.requeue->most == 2);
  CHECK(job.requeue->so_far == 0);
  CHECK_FALSE(options(job.hosts[0]).contains("--requeue"));
}

TEST_CASE("blaunch starts the agents in a job script of LSF, and qrsh in a job script of SGE") {
  const Texts lsf = {"LSB_JOBID=7", "LSB_MCPU_HOSTS=gpu-07 8 gpu-08 8", "PATH=/bin"};
  const remote::Job job = hosts({"train"}, launching(lsf));
  REQUIRE(job.hosts.size() == 2);
  CHECK(job.hosts[0].starter == Texts{"/opt/ddprun", "--remote_agent"});
  CHECK(job.hosts[1].program == "/bin/blaunch");
  CHECK(job.hosts[1].starter == Texts{"blaunch", "gpu-08", "/opt/ddprun", "--remote_agent"});
  CHECK(job.hosts[1].order.environment == Texts{"PATH=/bin"});
  auto second = options(job.hosts[1]);
  CHECK(second["--rdzv_endpoint"].starts_with("gpu-07:"));
  CHECK(second["--engine"] == "none");
  CHECK(second["--shutdown_timeout"] == "25000ms");
  CHECK(::ddprun::job({"--nnodes", "2", "train"}, launching(lsf)).node_rank == 0);

  cli::Host sge = launching({"JOB_ID=7", "PE_HOSTFILE=/spool/hosts", "PATH=/bin"});
  sge.read_file = [](const std::string&) { return "gpu-07 8 all.q UNDEFINED\ngpu-08 8 all.q U\n"; };
  const remote::Job of_sge = hosts({"train"}, sge);
  CHECK(of_sge.hosts[1].starter ==
        Texts{"qrsh", "-inherit", "-noshell", "gpu-08", "/opt/ddprun", "--remote_agent"});
  sge.secret = std::make_shared<Secret>("00112233445566778899aabbccddeeff");
  CHECK(tests::contains(refusal({"train"}, sge),
                        "only ssh passes DDPRUN_SECRET on without showing it"));
}

TEST_CASE("ssh starts the agents in a job script of PBS, and flux run in a job script of Flux") {
  cli::Host pbs = launching(
      {"PBS_JOBID=7", "PBS_NODEFILE=/nodes", "PBS_TASKNUM=1", "PBS_NODENUM=0", "PATH=/bin"});
  pbs.read_file = [](const std::string&) { return "gpu-07\ngpu-07\ngpu-08\n"; };
  const remote::Job job = hosts({"--nnodes", "1:2", "train"}, pbs);
  REQUIRE(job.hosts.size() == 2);
  CHECK(job.least == 1);
  CHECK(job.hosts[0].starter == Texts{"/opt/ddprun", "--remote_agent"});
  CHECK(job.hosts[1].program == "/bin/ssh");
  CHECK(job.hosts[1].starter == remote::ssh_command("ssh", "gpu-08", "/opt/ddprun"));
  CHECK(job.instead.starts_with("pbsdsh "));
  auto second = options(job.hosts[1]);
  CHECK(second["--engine"] == "none");
  CHECK(second["--shutdown_timeout"] == "25000ms");
  CHECK(second["--rdzv_endpoint"].starts_with("gpu-07:"));
  CHECK(second["--nproc_per_node"] == "gpu-or-1");

  cli::Host flux = launching({"FLUX_ENCLOSING_ID=f2", "FLUX_URI=local:///x", "PATH=/bin"});
  flux.output_of = [](const Texts& words) {
    CHECK(words == Texts{"flux", "hostlist", "local"});
    return "gpu-[07-08]\n";
  };
  const remote::Job of_flux = hosts({"train"}, flux);
  REQUIRE(of_flux.hosts.size() == 2);
  CHECK(of_flux.hosts[1].program == "/bin/flux");
  const Texts& words = of_flux.hosts[1].starter;
  CHECK(Texts(words.begin(), words.begin() + 2) == Texts{"flux", "run"});
  CHECK(std::ranges::count(words, "--requires=host:gpu-08") == 1);
}

TEST_CASE("if the program that starts the agents is missing, the error says what to do") {
  cli::Host bare = launching({"LSB_JOBID=7", "LSB_MCPU_HOSTS=gpu-07 8 gpu-08 8", "PATH=/bin"});
  bare.find_program = [](const std::string& name) -> Result<std::string> {
    return Error{Errc::not_found, "cannot run " + name + ": not found in PATH (did you mean sh?)"};
  };
  const auto sentence = [&bare](const Words& words) {
    return cli::parse(words, bare).error().message;
  };
  CHECK(sentence({"train"}) ==
        "cannot run blaunch: not found in PATH; it starts the agents: have it in this container, "
        "or start ddprun on every node by it from outside");
  CHECK(sentence({"--hosts", "a,b", "train"}) ==
        "cannot run ssh: not found in PATH; it starts the agents: install it here");
}

}  // namespace
}  // namespace ddprun
