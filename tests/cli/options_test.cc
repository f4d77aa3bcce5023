// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <chrono>
#include <string>
#include <vector>

#include "cli/line/flags.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("without flags one worker runs with torchrun's defaults") {
  const agent::JobSpec one = job({"train"});

  CHECK(one.command == std::vector<std::string>{"train"});
  CHECK(one.program == "/bin/train");
  CHECK(one.local_size == 1);
  CHECK(one.max_restarts == 0);
  CHECK(one.stop_grace == 30s);
  CHECK(one.master_addr == "127.0.0.1");
  CHECK(one.master_port == 0);
  CHECK_FALSE(one.node_rank);
  CHECK_FALSE(one.prefix);
  CHECK(one.gpu_bind == agent::GpuBind::all);
  CHECK(one.store == agent::StoreHost::agent);
  CHECK(one.log_level == log::Level::info);
  CHECK(one.events_file.empty());
}

TEST_CASE("every flag reaches the job") {
  const agent::JobSpec all = job({"--nproc_per_node",
                                  "2",
                                  "--nnodes",
                                  "1:1",
                                  "--node_rank",
                                  "0",
                                  "--master_addr",
                                  "gpu-07",
                                  "--master_port",
                                  "29500",
                                  "--max_restarts",
                                  "3",
                                  "--shutdown_timeout",
                                  "2.5",
                                  "--gpu_bind",
                                  "isolate",
                                  "--store",
                                  "worker",
                                  "--prefix",
                                  "${rank}| ",
                                  "--log_level",
                                  "debug",
                                  "--events",
                                  "e.jsonl",
                                  "train",
                                  "--lr",
                                  "0.1"});

  CHECK(all.local_size == 2);
  CHECK(all.node_rank == 0);
  CHECK(all.master_addr == "gpu-07");
  CHECK(all.master_port == 29500);
  CHECK(all.max_restarts == 3);
  CHECK(all.stop_grace == 2500ms);
  CHECK(all.gpu_bind == agent::GpuBind::isolate);
  CHECK(all.store == agent::StoreHost::worker);
  CHECK(all.prefix == "${rank}| ");
  CHECK(all.log_level == log::Level::debug);
  CHECK(all.events_file == "e.jsonl");
  CHECK(all.devices == std::vector<std::string>{"0", "1"});
  CHECK(all.command == std::vector<std::string>{"train", "--lr", "0.1"});
}

TEST_CASE("dashes and underscores mean the same, also mixed, with a space or an equals sign") {
  const char* spelling = GENERATE("--nproc_per_node", "--nproc-per-node", "--nproc-per_node");
  INFO(spelling);

  CHECK(job({spelling, "3", "train"}).local_size == 3);
  const std::string joined = std::string(spelling) + "=3";
  CHECK(job({joined.c_str(), "train"}).local_size == 3);
}

TEST_CASE("ddprun does not read the program's own flags") {
  const agent::JobSpec spec =
      job({"--max_restarts", "1", "train", "--max_restarts", "9", "--", "-x"});

  CHECK(spec.max_restarts == 1);
  CHECK(spec.command == std::vector<std::string>{"train", "--max_restarts", "9", "--", "-x"});
}

TEST_CASE("two dashes end the options, and a program may begin with one") {
  CHECK(job({"--no_prefix", "--", "--help", "x"}).command ==
        std::vector<std::string>{"--help", "x"});
}

TEST_CASE("the last value of a flag counts") {
  CHECK(job({"--max_restarts", "1", "--max-restarts=2", "train"}).max_restarts == 2);
  CHECK(job({"--nproc_per_node", "2", "--no_prefix", "--prefix", "p ", "train"}).prefix == "p ");
  CHECK_FALSE(job({"--nproc_per_node", "2", "--prefix", "p ", "--no_prefix", "train"}).prefix);
}

TEST_CASE("only the last value of a flag has to be valid") {
  CHECK(job({"--max_restarts", "many", "--max_restarts", "2", "train"}).max_restarts == 2);
  CHECK(refusal({"--max_restarts", "2", "--max_restarts", "many", "train"}) ==
        "--max_restarts expects a number, 0 or more, or a number per time as in 3/1h, not 'many'");
}

TEST_CASE("a value is used unchanged, even if it looks like a flag or a list") {
  const std::string value = GENERATE("", "-", "-x", "--> ", "---", "a=b", "=", "[a,b]", "[[a]]",
                                     "{}", "'a'", "\"a b\"", "%%", "true", "/x:y");
  INFO(value);
  const std::string joined = "--prefix=" + value;

  CHECK(job({"--prefix", value.c_str(), "--max_restarts", "1", "train"}).prefix == value);
  CHECK(job({joined.c_str(), "--max_restarts", "1", "train"}).max_restarts == 1);
  CHECK(job({joined.c_str(), "--max_restarts", "1", "train"}).prefix == value);
}

TEST_CASE("after an equals sign a value may even be a flag or two dashes") {
  CHECK(job({"--prefix=--help", "train"}).prefix == "--help");
  CHECK(job({"--prefix=--", "train"}).prefix == "--");
}

TEST_CASE("several workers have a prefix by default, which flags can empty or remove") {
  CHECK(job({"--nproc_per_node", "2", "train"}).prefix == "[${rank}] ");
  CHECK(job({"--nproc_per_node", "2", "--prefix=", "train"}).prefix == "");
  CHECK_FALSE(job({"--nproc_per_node", "2", "--no_prefix", "train"}).prefix);
}

TEST_CASE("an IPv6 address may stand in brackets") {
  CHECK(job({"--master_addr", "[fd00::1]", "train"}).master_addr == "fd00::1");
  CHECK(job({"--master_addr", "fd00::1", "train"}).master_addr == "fd00::1");
}

TEST_CASE("the flag --web serves the page at 127.0.0.1, or at the address in the same word") {
  CHECK_FALSE(job({"train"}).web);
  CHECK(job({"--web", "train"}).web->text() == "127.0.0.1:0");
  CHECK(job({"--web", "train"}).command == std::vector<std::string>{"train"});
  CHECK(job({"--web=8080", "train"}).web->text() == "127.0.0.1:8080");
  CHECK(job({"--web=0.0.0.0:80", "train"}).web->text() == "0.0.0.0:80");
  CHECK(job({"--web=[::1]:80", "train"}).web->text() == "[::1]:80");
  for (const char* wrong :
       {"--web=65536", "--web=localhost:80", "--web=1.2.3.4", "--web=:80", "--web=", "--web=-1"}) {
    INFO(wrong);
    CHECK(!cli::parse(std::vector{wrong, "train"}, host()));
  }
}

TEST_CASE("terminals are automatic by default, and flags decide on terminals and colours") {
  CHECK(job({"train"}).tty == agent::Tty::automatic);
  CHECK(job({"--tty", "always", "train"}).tty == agent::Tty::always);
  CHECK(job({"train"}, host({"DDPRUN_TTY=never"})).tty == agent::Tty::never);
  CHECK(job({"--color", "never", "train"}).colour == Colour::never);
  CHECK(job({"--colour=always", "train"}).colour == Colour::always);
}

TEST_CASE("a tiny grace is not rounded down to 0") {
  CHECK(job({"--shutdown_timeout", "0", "train"}).stop_grace == 0ms);
  CHECK(job({"--shutdown_timeout", "0.0001", "train"}).stop_grace == 1ms);
}

TEST_CASE("workers can be counted by GPUs and CPUs") {
  const cli::Host no_gpus = host({}, {});

  CHECK(job({"--nproc_per_node", "gpu", "train"}).local_size == 2);
  CHECK(job({"--nproc_per_node", "cpu", "train"}).local_size == 4);
  CHECK(job({"--nproc_per_node", "auto", "train"}).local_size == 2);
  CHECK(job({"--nproc_per_node", "auto", "train"}, no_gpus).local_size == 4);
  CHECK(refusal({"--nproc_per_node", "gpu", "train"}, no_gpus) ==
        "--nproc_per_node gpu needs a GPU, and this host has none: give a number of workers, or "
        "gpu-or-1");
}

TEST_CASE("the value gpu of --nproc_per_node counts an inherited list's GPUs that exist") {
  const std::vector<std::string> eight = {"0", "1", "2", "3", "4", "5", "6", "7"};
  const cli::Host on = host({"CUDA_VISIBLE_DEVICES=GPU-a,MIG-b,7"}, eight);
  const agent::JobSpec spec = job({"--nproc_per_node", "gpu", "train"}, on);
  CHECK(spec.local_size == 3);
  CHECK(spec.devices == std::vector<std::string>{"GPU-a", "MIG-b", "7"});
  CHECK(spec.warnings.empty());

  const cli::Host other = host({"CUDA_VISIBLE_DEVICES=0,1,7"});
  CHECK(job({"--nproc_per_node", "gpu", "train"}, other).local_size == 2);
  CHECK(job({"--nproc_per_node", "gpu", "train"}, other).warnings ==
        std::vector<std::string>{"CUDA_VISIBLE_DEVICES=0,1,7: this host has no GPU 7; CUDA sees 2 "
                                 "GPUs, so this node has 2 workers"});
  // If the user gives the number of workers, ddprun does not check the list.
  CHECK(job({"--nproc_per_node", "3", "train"}, other).devices.size() == 3);
  CHECK(job({"--nproc_per_node", "3", "train"}, other).warnings.empty());
}

TEST_CASE("an inherited list of devices starts no workers on a host without GPUs") {
  const cli::Host stale = host({"CUDA_VISIBLE_DEVICES=2,4,7"}, {});
  CHECK(
      refusal({"--nproc_per_node", "gpu", "train"}, stale) ==
      "--nproc_per_node gpu needs a GPU, and CUDA sees no GPU of this host "
      "(CUDA_VISIBLE_DEVICES=2,4,7: this host has no GPU): give a number of workers, or gpu-or-1");
  CHECK(job({"--nproc_per_node", "auto", "train"}, stale).local_size == 4);
  CHECK(job({"--nproc_per_node", "auto", "train"}, stale).warnings.size() == 1);
  CHECK(job({"--nproc_per_node", "gpu-or-1", "train"}, stale).local_size == 1);
  CHECK(refusal({"--nproc_per_node", "gpu", "train"}, host({"CUDA_VISIBLE_DEVICES=all"})) ==
        "--nproc_per_node gpu needs a GPU, and CUDA sees no GPU of this host "
        "(CUDA_VISIBLE_DEVICES=all: 'all' names no GPU): give a number of workers, or gpu-or-1");
  CHECK(refusal({"--nproc_per_node", "gpu", "train"}, host({"CUDA_VISIBLE_DEVICES=0,0"})) ==
        "--nproc_per_node gpu needs a GPU, and CUDA sees no GPU of this host "
        "(CUDA_VISIBLE_DEVICES=0,0: it names 0 twice): give a number of workers, or gpu-or-1");
  CHECK(job({"--nproc_per_node", "auto", "train"}, host({"CUDA_VISIBLE_DEVICES="}, {}))
            .warnings.empty());
}

TEST_CASE("the machine is searched thoroughly only when the number of GPUs matters") {
  std::vector<launcher::DeviceSearch> searches;
  cli::Host on = host();
  on.devices = [&searches](launcher::DeviceSearch search) {
    searches.push_back(search);
    return std::vector<std::string>{"0"};
  };

  job({"train"}, on);
  job({"--nproc_per_node", "gpu", "train"}, on);
  job({"--gpu_bind", "isolate", "train"}, on);

  CHECK(searches == std::vector<launcher::DeviceSearch>{launcher::DeviceSearch::quick,
                                                        launcher::DeviceSearch::exact,
                                                        launcher::DeviceSearch::exact});
}

TEST_CASE("help names every flag and its variable in lines that fit a terminal") {
  const std::string help = printed({"--help"});
  std::string unwrapped = help;
  for (size_t at = 0; (at = unwrapped.find("\n      ", at)) != std::string::npos;) {
    unwrapped.replace(at, 7, " ");
  }

  for (const cli::Flag& flag : cli::flags()) {
    INFO(flag.name);
    CHECK((help.find("\n  --" + std::string(flag.name)) != std::string::npos) ==
          flag.in(cli::Mode::run));
    if (!flag.in(cli::Mode::run)) continue;
    CHECK(help.find(flag.alias) != std::string::npos);
    CHECK(help.find(flag.environment) != std::string::npos);
    CHECK(unwrapped.find(flag.fallback) != std::string::npos);
  }
  size_t longest = 0;
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = help.find('\n', begin);
    longest = std::max(longest, end - begin);
    begin = end + 1;
  }
  CHECK(longest <= 80);
}

TEST_CASE("the flag -h prints a short help of two columns on one screen") {
  const std::string help = printed({"-h"});
  CHECK(help == printed({"help"}));
  CHECK(help.find("--nproc_per_node N|auto|gpu|cpu") != std::string::npos);
  CHECK(help.find("\n    ddprun --nproc_per_node 4 train.py") != std::string::npos);
  CHECK(std::count(help.begin(), help.end(), '\n') < 55);
  for (const char* command : {"serve", "doctor", "secret", "manifest"}) {
    CHECK(printed({command, "-h"}) == printed({command, "--help"}));
  }
}

TEST_CASE("no two flags share a name or a variable") {
  for (const cli::Flag& one : cli::flags()) {
    for (const cli::Flag& other : cli::flags()) {
      if (&one == &other) continue;
      CHECK(one.name != other.name);
      CHECK((one.alias.empty() || (one.alias != other.name && one.alias != other.alias)));
      CHECK((one.environment.empty() || one.environment != other.environment));
    }
  }
}

TEST_CASE("help is printed unless an unknown or malformed flag comes first") {
  CHECK(printed({"--help", "--max_restarts"}) == printed({"--help"}));
  CHECK(printed({"--max_restarts", "many", "--help", "--version"}) == printed({"--help"}));
  CHECK(refusal({"--no_such_flag", "--help"}).starts_with("unknown flag --no_such_flag"));
  CHECK(refusal({"--standalone=1", "--help"}).starts_with("--standalone takes no value"));
}

TEST_CASE("version and help are printed even if later flags or the environment are invalid") {
  const cli::Host on = host({"PET_MAX_RESTARTS=many"});

  CHECK(printed({"--version"}, on).starts_with("ddprun " DDPRUN_VERSION "\ncommit "));
  CHECK(printed({"--help", "--no_such_flag"}, on) == printed({"--help"}));
}

TEST_CASE("a dry run prints the node, and each worker's environment and command") {
  const std::string text =
      printed({"--nproc_per_node", "2", "--dry_run", "./train", "--lr", "0.1", "a b"});

  CHECK(
      text.starts_with("node 0 of 1 on gpu-07, rendezvous 127.0.0.1 (free port), restarts 0, "
                       "GPUs 0,1 (all visible to each worker)\n"
                       "each rank: WORLD_SIZE=2 "));
  CHECK(text.find("\nrank 1: RANK=1 LOCAL_RANK=1 ROLE_RANK=1 ./train") != std::string::npos);
  CHECK(text.find(" MASTER_PORT=PORT ") != std::string::npos);
  CHECK(text.find(" CUDA_VISIBLE_DEVICES=0,1 ") != std::string::npos);
  CHECK(text.ends_with(" ./train --lr 0.1 'a b'\n"));
}

TEST_CASE("a dry run prints the requested port") {
  const std::string text =
      printed({"--dry_run", "--master_addr", "::1", "--master_port", "29500", "train"});

  CHECK(text.find("rendezvous [::1]:29500,") != std::string::npos);
  CHECK(text.find(" MASTER_ADDR=::1 MASTER_PORT=29500 ") != std::string::npos);
}
