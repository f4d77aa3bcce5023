// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <chrono>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("MPI programs that would each be rank 0 of 1 are warned of") {
  cli::Host on = host();
  on.needed_libraries = [](const std::string&) {
    return std::vector<std::string>{"libmpi.so.40", "libc.so.6"};
  };
  const auto warnings = [&](const Words& words) { return job(words, on).warnings; };
  REQUIRE(warnings({"--nproc_per_node", "2", "./hello"}).size() == 1);
  CHECK(warnings({"--nproc_per_node", "2", "./hello"})
            .front()
            .starts_with("/bin/./hello is linked with MPI, whose ranks ddprun does not connect"));
  CHECK(warnings({"./hello"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "hello.py"}).empty());
  on.environment = {"PMIX_RANK=0"};
  CHECK(warnings({"--nproc_per_node", "2", "./hello"}).empty());
  on.environment.clear();
  on.needed_libraries = [](const std::string&) {
    return std::vector<std::string>{"libddp.so.1", "libmpi.so.40"};
  };
  CHECK(warnings({"--nproc_per_node", "2", "./hello"}).empty());
}

TEST_CASE("flags of other launchers are refused with ours") {
  const auto [theirs, ours] =
      GENERATE(table<const char*, const char*>({{"--nprocs", "--nproc_per_node"},
                                                {"--num-processes", "--nproc_per_node"},
                                                {"--NPROC_PER_NODE", "--nproc_per_node"},
                                                {"-N", "--nnodes or --nproc_per_node"},
                                                {"-v", "--log_level debug"}}));
  CHECK(refusal({theirs, "2", "train"}) ==
        std::string("unknown flag ") + theirs + "; did you mean " + ours + "?");
}

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

TEST_CASE("the program's own flags are not read") {
  const agent::JobSpec spec =
      job({"--max_restarts", "1", "train", "--max_restarts", "9", "--", "-x"});

  CHECK(spec.max_restarts == 1);
  CHECK(spec.command == std::vector<std::string>{"train", "--max_restarts", "9", "--", "-x"});
}

TEST_CASE("two dashes end the options, and a program may begin with one") {
  CHECK(job({"--no_prefix", "--", "--help", "x"}).command ==
        std::vector<std::string>{"--help", "x"});
}

TEST_CASE("a flag given twice counts as it was given last") {
  CHECK(job({"--max_restarts", "1", "--max-restarts=2", "train"}).max_restarts == 2);
  CHECK(job({"--nproc_per_node", "2", "--no_prefix", "--prefix", "p ", "train"}).prefix == "p ");
  CHECK_FALSE(job({"--nproc_per_node", "2", "--prefix", "p ", "--no_prefix", "train"}).prefix);
}

TEST_CASE("only the last value of a flag has to be valid") {
  CHECK(job({"--max_restarts", "many", "--max_restarts", "2", "train"}).max_restarts == 2);
  CHECK(refusal({"--max_restarts", "2", "--max_restarts", "many", "train"}) ==
        "--max_restarts expects a number, 0 or more, or a number per time as in 3/1h, not 'many'");
}

TEST_CASE("a value is used unchanged, whatever it looks like") {
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

TEST_CASE("several workers have a prefix by default, and it can be empty or absent") {
  CHECK(job({"--nproc_per_node", "2", "train"}).prefix == "[${rank}] ");
  CHECK(job({"--nproc_per_node", "2", "--prefix=", "train"}).prefix == "");
  CHECK_FALSE(job({"--nproc_per_node", "2", "--no_prefix", "train"}).prefix);
}

TEST_CASE("an IPv6 address may stand in brackets") {
  CHECK(job({"--master_addr", "[fe80::1]", "train"}).master_addr == "fe80::1");
  CHECK(job({"--master_addr", "fe80::1", "train"}).master_addr == "fe80::1");
}

TEST_CASE("the page is nowhere, at 127.0.0.1, or where it is said in the same word") {
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

TEST_CASE("terminals and colours are automatic unless somebody decides") {
  CHECK(job({"train"}).tty == agent::Tty::automatic);
  CHECK(job({"--tty", "always", "train"}).tty == agent::Tty::always);
  CHECK(job({"train"}, host({"DDPRUN_TTY=never"})).tty == agent::Tty::never);
  CHECK(job({"--color", "never", "train"}).colour == Colour::never);
  CHECK(job({"--colour=always", "train"}).colour == Colour::always);
}

TEST_CASE("a rank that is debugged has to exist, and needs a terminal") {
  CHECK(job({"--nproc_per_node", "2", "--pdb", "1", "train"}).debugged_rank == 1);
  CHECK(refusal({"--nproc_per_node", "2", "--pdb", "2", "train"}) ==
        "--pdb 2: this job has 2 workers, and ranks begin with 0");
  CHECK(job({"--nnodes", "2", "--rdzv_endpoint", "a", "--pdb", "2", "train"}).debugged_rank == 2);
  cli::Host piped = host();
  piped.has_terminal = [] { return false; };
  CHECK(refusal({"--pdb", "0", "train"}, piped) ==
        "--pdb 0 needs a terminal, and stdin or stdout of ddprun is none");
  CHECK(refusal({"--hosts", "a", "--pdb", "0", "train"}) ==
        "--pdb: the hosts have no terminal; run ddprun on each node instead");
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
        "--nproc_per_node gpu needs a GPU, and this host has none");
}

TEST_CASE("an inherited list of devices is the node's GPUs, and the machine is not searched") {
  cli::Host on = host({"CUDA_VISIBLE_DEVICES=GPU-a,MIG-b,7"});
  on.devices = [](launcher::DeviceSearch) -> std::vector<std::string> {
    FAIL("the machine was searched");
    return {};
  };

  const agent::JobSpec spec = job({"--nproc_per_node", "gpu", "train"}, on);

  CHECK(spec.local_size == 3);
  CHECK(spec.devices == std::vector<std::string>{"GPU-a", "MIG-b", "7"});
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

TEST_CASE("isolating more workers than there are GPUs is refused with both numbers") {
  CHECK(refusal({"--nproc_per_node", "8", "--gpu_bind", "isolate", "train"},
                host({"CUDA_VISIBLE_DEVICES=0,1,2,3"})) ==
        "--gpu_bind isolate needs at least one GPU per worker: 8 workers, 4 GPUs on this host "
        "(CUDA_VISIBLE_DEVICES=0,1,2,3)");
}

TEST_CASE("an unknown flag is refused with the closest one") {
  CHECK(refusal({"--nproc_per_nod", "4", "train"}) ==
        "unknown flag --nproc_per_nod; did you mean --nproc_per_node?");
  CHECK(refusal({"--max-restart=4", "train"}) ==
        "unknown flag --max-restart; did you mean --max_restarts?");
  CHECK(refusal({"--nproc", "4", "train"}) ==
        "unknown flag --nproc; did you mean --nproc_per_node?");
  CHECK(refusal({"-x", "3", "train"}) == "unknown flag -x; ddprun --help lists all flags");
  CHECK(refusal({"-role=x", "train"}) == "unknown flag -role; did you mean --role?");
  CHECK(refusal({"-max-restarts", "3", "train"}) ==
        "unknown flag -max-restarts; did you mean --max_restarts?");
}

TEST_CASE("a word that only resembles a flag is unknown") {
  const char* word = GENERATE("-3", "-hx", "-host", "---", "--=", "-=", "--Help", "--no_prefix_");
  INFO(word);

  CHECK(
      refusal({"--max_restarts", "1", word, "train"})
          .starts_with("unknown flag " + std::string(word).substr(0, std::string(word).find('='))));
}

TEST_CASE("a missing value is an error, also when the next word is a flag") {
  const std::string sentence =
      "--max_restarts needs a value: a number, 0 or more, or a number per time as in 3/1h";

  CHECK(refusal({"--max_restarts"}) == sentence);
  CHECK(refusal({"--max_restarts", "--standalone", "train"}) == sentence);
  CHECK(refusal({"--max_restarts", "--", "train"}) == sentence);
}

TEST_CASE("a wrong value is refused with its flag and the valid values") {
  const auto [flag, value] =
      GENERATE(table<const char*, const char*>({{"--nproc_per_node", "0"},
                                                {"--nproc_per_node", "-1"},
                                                {"--nproc_per_node", "four"},
                                                {"--nproc_per_node", "65537"},
                                                {"--nproc_per_node", "2x"},
                                                {"--nproc_per_node", ""},
                                                {"--nnodes", "0"},
                                                {"--nnodes", "2:1"},
                                                {"--nnodes", "1:2:3"},
                                                {"--node_rank", "-1"},
                                                {"--master_addr", ""},
                                                {"--master_addr", "gpu-07:29500"},
                                                {"--master_port", "65536"},
                                                {"--master_port", "http"},
                                                {"--max_restarts", "-1"},
                                                {"--max_restarts", "1.5"},
                                                {"--max_restarts", "99999999999"},
                                                {"--shutdown_timeout", "-1"},
                                                {"--shutdown_timeout", "nan"},
                                                {"--shutdown_timeout", "inf"},
                                                {"--shutdown_timeout", "10x"},
                                                {"--nnodes", "1:"},
                                                {"--nnodes", ":2"},
                                                {"--nnodes", "32768"},
                                                {"--rdzv_endpoint", "gpu-07:x"},
                                                {"--rdzv_endpoint", ""},
                                                {"--rdzv_id", ""},
                                                {"--rdzv_backend", "mpi"},
                                                {"--local_addr", "a"},
                                                {"--local_addr", "1.2.3.4:1"},
                                                {"--join_timeout", "0"},
                                                {"--last_call_timeout", "-1"},
                                                {"--heartbeat_interval", "9ms"},
                                                {"--lease", "1001d"},
                                                {"--max_restarts", "3/"},
                                                {"--max_restarts", "3/0"},
                                                {"--max_restarts", "/1h"},
                                                {"--max_restarts", "3/1h/1h"},
                                                {"--restart_backoff", "soon"},
                                                {"--min_uptime", "1 s"},
                                                {"--gpu_bind", "some"},
                                                {"--store", "none"},
                                                {"--tty", "yes"},
                                                {"--color", "red"},
                                                {"--pdb", "-1"},
                                                {"--log_level", "loud"},
                                                {"--events", ""}}));
  const std::string refused = refusal({flag, value, "train"});

  INFO(refused);
  CHECK(refused.starts_with(std::string(flag) + " expects "));
  CHECK(refused.ends_with(", not '" + std::string(value) + "'"));
}

TEST_CASE("a switch takes no value") {
  CHECK(refusal({"--standalone=1", "train"}) == "--standalone takes no value, but got '1'");
  CHECK(refusal({"--max_restarts", "1", "--no-prefix=false", "--store", "agent", "train"}) ==
        "--no_prefix takes no value, but got 'false'");
  CHECK(refusal({"--help=all"}) == "--help takes no value, but got 'all'");
}

TEST_CASE("a switch may be called true") {
  CHECK_FALSE(job({"--nproc_per_node", "2", "--no_prefix=true", "train"}).prefix);
}

TEST_CASE("a prefix with an unknown macro is refused") {
  CHECK(refusal({"--prefix", "${rnak} ", "train"}).find("unknown macro ${rnak}") !=
        std::string::npos);
}

TEST_CASE("a missing program is an error") {
  CHECK(refusal({"--standalone"}).starts_with("no program to run"));
  CHECK(refusal({"--"}).starts_with("no program to run"));
}

TEST_CASE("help names every flag with its variable, on lines that fit a terminal") {
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

TEST_CASE("a number of workers after the program is warned of, where there is one worker") {
  const auto warnings = [](const Words& words) { return job(words).warnings; };
  CHECK(warnings({"train", "--lr", "0.1", "--nproc-per-node", "4"}) ==
        std::vector<std::string>{"--nproc-per-node after the program is the program's own; "
                                 "ddprun's flags stand before it (-- before the program says that "
                                 "this is meant)"});
  CHECK(warnings({"train.py", "--nnodes=2"}).size() == 1);
  CHECK(warnings({"--", "train", "--nproc_per_node", "4"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "train", "--nproc_per_node", "4"}).empty());
  CHECK(warnings({"train", "--max_restarts", "4"}).empty());
}

TEST_CASE("-h is the help in short, on one screen of two columns") {
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

TEST_CASE("help is printed before an invalid flag, and not after it") {
  CHECK(printed({"--help", "--max_restarts"}) == printed({"--help"}));
  CHECK(printed({"--max_restarts", "many", "--help", "--version"}) == printed({"--help"}));
  CHECK(refusal({"--no_such_flag", "--help"}).starts_with("unknown flag --no_such_flag"));
  CHECK(refusal({"--standalone=1", "--help"}).starts_with("--standalone takes no value"));
}

TEST_CASE("version and help are printed whatever follows and whatever the environment sets") {
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
