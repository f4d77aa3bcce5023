// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/line/flags.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("torchrun's flags describe a static job of two nodes") {
  const agent::JobSpec spec = job({"--nnodes", "2", "--node_rank", "1", "--master_addr", "10.0.0.1",
                                   "--master_port", "29600", "train"});

  CHECK(spec.min_nodes == 2);
  CHECK(spec.max_nodes == 2);
  CHECK(spec.node_rank == 1);
  CHECK(spec.master_addr == "10.0.0.1");
  CHECK(spec.master_port == 29600);
  CHECK_FALSE(spec.is_host);
}

TEST_CASE("torchrun's flags describe an elastic job") {
  const agent::JobSpec spec = job({"--nnodes", "2:4", "--rdzv_backend", "c10d", "--rdzv_endpoint",
                                   "node0:29600", "--rdzv_id", "job42", "--rdzv_conf",
                                   "is_host=1,join_timeout=60", "--max_restarts", "3/1h", "train"});

  CHECK(spec.min_nodes == 2);
  CHECK(spec.max_nodes == 4);
  CHECK_FALSE(spec.node_rank);
  CHECK(spec.master_addr == "node0");
  CHECK(spec.master_port == 29600);
  CHECK(spec.run_id == "job42");
  CHECK(spec.is_host == true);
  CHECK(spec.join_timeout == 60s);
  CHECK(spec.max_restarts == 3);
  CHECK(spec.restart_window == 1h);
}

TEST_CASE("the flags for times and addresses reach the job") {
  const agent::JobSpec spec =
      job({"--join_timeout", "2min", "--last_call_timeout", "500ms", "--heartbeat_interval", "1",
           "--lease", "3s", "--restart_backoff", "5", "--min_uptime", "1m", "--local_addr",
           "[fe80::1%eth0]", "train"});

  CHECK(spec.join_timeout == 2min);
  CHECK(spec.last_call == 500ms);
  CHECK(spec.heartbeat == 1s);
  CHECK(spec.lease == 3s);
  CHECK(spec.restart_backoff == 5s);
  CHECK(spec.min_uptime == 1min);
  CHECK(spec.local_addr == "fe80::1%eth0");
}

TEST_CASE("the port is 29500 for several nodes or an endpoint, else a free port") {
  CHECK(job({"--nnodes", "2", "--master_addr", "a", "train"}).master_port == 29500);
  CHECK(job({"--nnodes", "1:2", "--rdzv_endpoint", "a", "train"}).master_port == 29500);
  CHECK(job({"--rdzv_endpoint", "a", "train"}).master_port == 29500);
  CHECK(job({"--rdzv_endpoint", "a:0", "train"}).master_port == 0);
  CHECK(job({"--master_addr", "a", "train"}).master_port == 0);
  CHECK(job({"train"}).master_port == 0);
}

TEST_CASE("the flag --master_address means --master_addr") {
  CHECK(job({"--master_address", "a", "train"}).master_addr == "a");
  CHECK(job({"--master-address=a", "train"}).master_addr == "a");
  CHECK(job({"--master_address", "a", "--master_addr", "b", "train"}).master_addr == "b");
  CHECK(refusal({"--master_address", "train"}).starts_with("no program to run"));
  CHECK(refusal({"--master_adress", "a", "train"}) ==
        "unknown flag --master_adress; did you mean --master_addr?");
}

TEST_CASE("the endpoint overrides the master's address and port, in either order") {
  const agent::JobSpec after =
      job({"--master_addr", "a", "--master_port", "1", "--rdzv_endpoint", "b:2", "train"});
  const agent::JobSpec before =
      job({"--rdzv_endpoint", "b:2", "--master_addr", "a", "--master_port", "1", "train"});

  CHECK(after.master_addr == "b");
  CHECK(after.master_port == 2);
  CHECK(before.master_addr == "b");
  CHECK(before.master_port == 2);
}

TEST_CASE("an endpoint without a port gets that of --master_port") {
  CHECK(job({"--rdzv_endpoint", "b", "--master_port", "1", "train"}).master_port == 1);
}

TEST_CASE("the flags --master_addr and --master_port override the environment's endpoint") {
  const cli::Host on = host({"PET_RDZV_ENDPOINT=a:1", "PET_NNODES=2"});

  CHECK(job({"train"}, on).master_addr == "a");
  CHECK(job({"--master_addr", "b", "--master_port", "2", "train"}, on).master_addr == "b");
  CHECK(job({"--master_addr", "b", "--master_port", "2", "train"}, on).master_port == 2);
}

TEST_CASE("a specific flag overrides --rdzv_conf, and both override the environment") {
  const cli::Host on = host({"DDPRUN_JOIN_TIMEOUT=1", "PET_RDZV_CONF=last_call_timeout=1"});

  const agent::JobSpec spec = job(
      {"--last_call_timeout", "3", "--rdzv_conf", "join_timeout=2,last_call_timeout=2", "train"},
      on);

  CHECK(spec.join_timeout == 2s);
  CHECK(spec.last_call == 3s);
  CHECK(job({"train"}, on).last_call == 1s);
}

TEST_CASE("the flag --max_restarts limits restarts in total, or within a time") {
  CHECK(job({"--max_restarts", "0", "train"}).restart_window == 0ms);
  CHECK(job({"--max_restarts", "3/90s", "train"}).restart_window == 90s);
  CHECK(job({"--max_restarts", "2", "train"}, host({"PET_MAX_RESTARTS=3/1h"})).restart_window ==
        0ms);
}

TEST_CASE("with --rdzv_backend etcd, the endpoint names etcd's servers and no node has a rank") {
  const auto spec = job({"--rdzv_backend", "etcd", "--rdzv_endpoint", "e1,[fd00::1]:99",
                         "--rdzv_id", "x", "--nnodes", "2:3", "--node_rank", "1", "train"});
  REQUIRE(spec.etcd);
  CHECK(spec.etcd->text() == "e1:2379,[fd00::1]:99");
  CHECK(spec.etcd->user.empty());
  CHECK_FALSE(spec.node_rank);
  auto with_user = host({});
  with_user.etcd_user = std::make_shared<Secret>("ddp:a:b");
  const auto user = job(
      {"--rdzv_backend", "etcd", "--rdzv_endpoint", "e1", "--rdzv_id", "x", "train"}, with_user);
  CHECK(user.etcd->user == "ddp");
  CHECK(user.etcd->password == "a:b");
}

TEST_CASE("flags that do not fit etcd are refused with what to give instead") {
  const auto with = [](std::vector<const char*> words) {
    words.insert(words.begin(), {"--rdzv_backend", "etcd"});
    words.push_back("train");
    return refusal(words);
  };
  CHECK(with({"--rdzv_id", "x"}) ==
        "--rdzv_backend etcd needs --rdzv_endpoint HOST[:PORT],... of its servers");
  CHECK(with({"--rdzv_endpoint", "e1"}) ==
        "--rdzv_backend etcd needs --rdzv_id ID, by which etcd tells jobs apart");
  CHECK(refusal({"--rdzv_endpoint", "a,b", "--nnodes", "2", "train"}) ==
        "--rdzv_endpoint names 2 servers, which only --rdzv_backend etcd has");
  CHECK(refusal({"--rdzv_backend", "etcd-v2", "train"}) ==
        "--rdzv_backend 'etcd-v2' is not supported: give etcd, which needs etcd 3.4 or later, or "
        "static or c10d, which need no server");
}

TEST_CASE("an error in --rdzv_conf begins with the name of the flag or of its variable") {
  CHECK(refusal({"--rdzv_conf", "join_timeuot=1", "train"}) ==
        "--rdzv_conf has no key 'join_timeuot'; did you mean join_timeout?");
  CHECK(refusal({"train"}, host({"PET_RDZV_CONF=is_host=2"})) ==
        "PET_RDZV_CONF is_host expects true or false, not '2'");
}

TEST_CASE("several nodes need an endpoint that all of them can know") {
  CHECK(refusal({"--nnodes", "2", "--master_port", "29500", "train"}) ==
        "--nnodes 2 needs --rdzv_endpoint HOST[:PORT], the same on every node");
  CHECK(refusal({"--nnodes", "1:2", "train"}) ==
        "--nnodes 1:2 needs --rdzv_endpoint HOST[:PORT], the same on every node");
  CHECK(refusal({"--nnodes", "2", "--master_addr", "a", "--master_port", "0", "train"}) ==
        "--master_port 0 means any free port, which other nodes cannot know: give a port from 1 "
        "to 65535");
  CHECK(refusal({"--nnodes", "2", "--rdzv_endpoint", "a:0", "train"}) ==
        "--rdzv_endpoint a:0 means any free port, which other nodes cannot know: give a port from "
        "1 to 65535");
  CHECK(refusal({"--nnodes", "2", "--rdzv_endpoint", ":29500", "train"}) ==
        "--rdzv_endpoint :29500 names no host: give HOST:PORT (only ddprun serve listens at every "
        "address)");
}

TEST_CASE("a node rank that is out of range is refused with the range") {
  CHECK(refusal({"--node_rank", "2", "train"}) ==
        "--node_rank 2 is not one of this job's nodes: --nnodes 1 allows only 0");
  CHECK(refusal({"--nnodes", "2", "--node_rank", "2", "--master_addr", "a", "train"}) ==
        "--node_rank 2 is not one of this job's nodes: --nnodes 2 allows 0 and 1");
  CHECK(refusal({"--nnodes", "2:4", "--node_rank", "4", "--master_addr", "a", "train"}) ==
        "--node_rank 4 is not one of this job's nodes: --nnodes 2:4 allows 0 to 3");
}

TEST_CASE("standalone is one node") {
  CHECK(job({"--standalone", "--nnodes", "1:1", "train"}).max_nodes == 1);
  CHECK(refusal({"--standalone", "--nnodes", "1:2", "train"}) ==
        "--standalone means one node: leave out --standalone or --nnodes 1:2");
}

TEST_CASE("standalone uses a free port of this host, even if other flags name an address") {
  const agent::JobSpec spec = job({"--standalone", "--rdzv_endpoint", ":29500", "--rdzv_conf",
                                   "is_host=0", "--master_addr", "gpu-07", "train"});

  CHECK(spec.master_addr == "127.0.0.1");
  CHECK(spec.master_port == 0);
  CHECK_FALSE(spec.is_host);
}

TEST_CASE("a lease has to be longer than the time between two heartbeats") {
  CHECK(refusal({"--heartbeat_interval", "10", "train"}) ==
        "--lease 10 s has to be longer than --heartbeat_interval 10 s");
  CHECK(refusal({"--rdzv_conf", "keep_alive_interval=2,keep_alive_max_attempt=1", "train"}) ==
        "--lease 2 s has to be longer than --heartbeat_interval 2 s");
  CHECK(job({"--heartbeat_interval", "10", "--lease", "10001ms", "train"}).lease == 10001ms);
}

TEST_CASE("the one worker of a node has a prefix when there are several nodes") {
  CHECK(job({"--nnodes", "2", "--master_addr", "a", "train"}).prefix == "[${rank}] ");
}

TEST_CASE("serve as the first word runs only the rendezvous") {
  const agent::JobSpec spec = served({"serve", "--rdzv_endpoint", ":29600", "--nnodes", "2:4",
                                      "--rdzv-id", "job42", "--max_restarts", "3", "--min_uptime",
                                      "5", "--log_level", "debug", "--events", "e", "--"});

  CHECK(spec.master_addr.empty());
  CHECK(spec.master_port == 29600);
  CHECK(spec.max_nodes == 4);
  CHECK(spec.run_id == "job42");
  CHECK(spec.max_restarts == 3);
  CHECK(spec.min_uptime == 5s);
  CHECK(spec.log_level == log::Level::debug);
  CHECK(spec.events_file == "e");
  CHECK(spec.is_host == true);
}

TEST_CASE("serve accepts its address from any of the flags for it") {
  CHECK(served({"serve", "--master_addr", "a"}).master_port == 29500);
  CHECK(served({"serve", "--rdzv_endpoint", "[::1]:5"}).master_addr == "::1");
  CHECK(served({"serve"}, host({"PET_RDZV_ENDPOINT=a:7"})).master_port == 7);
}

TEST_CASE("serve without an address that nodes can know is refused") {
  CHECK(refusal({"serve"}) ==
        "ddprun serve needs --rdzv_endpoint HOST:PORT, or :PORT for every address");
  CHECK(refusal({"serve", "--rdzv_endpoint", ":0"}) ==
        "--rdzv_endpoint :0 means any free port, which other nodes cannot know: give a port from "
        "1 to 65535");
}

TEST_CASE("serve refuses a program and the flags of workers") {
  CHECK(refusal({"serve", "--rdzv_endpoint", ":1", "./train"}) ==
        "ddprun serve runs no program, but got './train'; a program called serve is run "
        "as ddprun ./serve");
  const char* flag =
      GENERATE("--nproc_per_node=2", "--gpu_bind=all", "--prefix=x", "--no_prefix", "--node_rank=0",
               "--dry_run", "--standalone", "--shutdown_timeout=1", "--local_addr=a");
  const std::string given(flag);
  CHECK(refusal({"serve", "--rdzv_endpoint", ":1", flag}) ==
        given.substr(0, given.find('=')) +
            " is not for ddprun serve, which runs no workers; see ddprun serve --help");
}

TEST_CASE("serve ignores environment variables about workers") {
  const cli::Host on = host({"PET_NPROC_PER_NODE=many", "PET_NODE_RANK=9", "PET_STANDALONE=1"});

  CHECK(served({"serve", "--rdzv_endpoint", ":29600"}, on).master_port == 29600);
}

TEST_CASE("a program called serve can still be run") {
  CHECK(job({"--", "serve"}).command == std::vector<std::string>{"serve"});
  CHECK(job({"./serve"}).command == std::vector<std::string>{"./serve"});
  CHECK(job({"--max_restarts", "1", "serve"}).command == std::vector<std::string>{"serve"});
}

TEST_CASE("the help of serve names the flags it takes and no others") {
  const std::string help = printed({"serve", "--help"});

  CHECK(help.starts_with("Usage: ddprun serve "));
  for (const cli::Flag& flag : cli::flags()) {
    INFO(flag.name);
    const bool named = help.find("\n  --" + std::string(flag.name)) != std::string::npos;
    CHECK(named == flag.in(cli::Mode::serve));
  }
  CHECK(printed({"--help"}).find("ddprun serve") != std::string::npos);
  CHECK(printed({"serve", "--version"}) == printed({"--version"}));
}

TEST_CASE("a dry run of a node with a rank prints the ranks and their assumptions") {
  const std::string text =
      printed({"--nnodes", "2", "--node_rank", "1", "--rdzv_endpoint", "gpu-01", "--max_restarts",
               "3/1h", "--nproc_per_node", "2", "--dry_run", "train"});

  CHECK(text.starts_with(
      "node 1 of 2 on gpu-07, rendezvous gpu-01:29500, restarts 3 within 1 h, GPUs 0,1 (all "
      "visible to each worker)\n"
      "assuming --nproc_per_node 2 on every node\n"
      "each rank: WORLD_SIZE=4 "));
  CHECK(text.find("\nrank 2: RANK=2 LOCAL_RANK=0 ") != std::string::npos);
  CHECK(text.find("\nrank 3: RANK=3 LOCAL_RANK=1 ") != std::string::npos);
  CHECK(text.find(" GROUP_RANK=1 GROUP_WORLD_SIZE=2 ") != std::string::npos);
  CHECK(text.find('?') == std::string::npos);
}

TEST_CASE("a dry run without a node rank prints ? for each value that depends on other nodes") {
  const std::string text = printed({"--nnodes", "2:4", "--rdzv_endpoint", "gpu-01",
                                    "--nproc_per_node", "2", "--dry_run", "train"});

  CHECK(text.starts_with("node ? of 2..4 on gpu-07, rendezvous gpu-01:29500, "));
  CHECK(
      text.find("\nassuming --nproc_per_node 2 on every node; ? is known after the rendezvous\n") !=
      std::string::npos);
  CHECK(text.find("\neach rank: WORLD_SIZE=? LOCAL_WORLD_SIZE=2 GROUP_RANK=? "
                  "GROUP_WORLD_SIZE=? ") != std::string::npos);
  CHECK(text.find("\nlocal rank 1: RANK=? LOCAL_RANK=1 ROLE_RANK=? train\n") != std::string::npos);
  CHECK(text.find("\nrank ") == std::string::npos);
}

TEST_CASE("a tunnel to the store needs a secret, and one node has no tunnel") {
  const std::string wanted =
      "--store tunnel encrypts with the job's secret, and there is none: give every node one "
      "(--secret_file, DDPRUN_SECRET)";
  CHECK(refusal({"--nnodes", "2", "--rdzv_endpoint", "a", "--store", "tunnel", "train"}) == wanted);
  CHECK(refusal({"serve", "--nnodes", "2", "--rdzv_endpoint", ":1", "--store", "tunnel"}) ==
        wanted);
  const std::string alone = printed({"--store", "tunnel", "--dry_run", "train"});
  CHECK(alone.find(" MASTER_ADDR=127.0.0.1 ") != std::string::npos);
}

TEST_CASE("a dry run prints ? for the address of a store in rank 0") {
  const std::string text = printed({"--nnodes", "2", "--node_rank", "0", "--rdzv_endpoint", "a",
                                    "--store", "worker", "--dry_run", "train"});

  CHECK(text.find("on every node; ? is known after the rendezvous\nrank 0: ") != std::string::npos);
  CHECK(text.find(" MASTER_ADDR=? MASTER_PORT=PORT ") != std::string::npos);
}

TEST_CASE("a node without the program joins a job of several nodes to report that") {
  cli::Host here = host();
  here.find_program = [](const std::string& name) -> Result<std::string> {
    return Error{Errc::not_found, "cannot run " + name + ": no such file"};
  };
  const agent::JobSpec spec =
      job({"--nnodes", "2", "--rdzv_endpoint", "node0", "./train", "--lr", "1"}, here);
  REQUIRE(spec.cannot_run);
  CHECK(spec.cannot_run->code == Errc::not_found);
  CHECK(spec.cannot_run->message == "cannot run ./train: no such file");
  CHECK(spec.command == std::vector<std::string>{"./train", "--lr", "1"});
  CHECK(cli::parse(Words{"./train"}, here).has_error());
  CHECK(cli::parse(Words{"--nnodes", "2", "--rdzv_endpoint", "node0", "--dry_run", "./train"}, here)
            .has_error());
  CHECK_FALSE(job({"--nnodes", "2", "--rdzv_endpoint", "node0", "./train"}).cannot_run);
}
