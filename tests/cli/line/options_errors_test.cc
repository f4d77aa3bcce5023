// SPDX-License-Identifier: Apache-2.0
// Command lines that ddprun refuses or warns of.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/options.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using namespace std::chrono_literals;

TEST_CASE("ddprun warns of MPI programs that would each be rank 0 of 1") {
  cli::Host on = host();
  on.needed_libraries = [](const std::string&) {
    return std::vector<std::string>{"libmpi_cray.so.12", "libpmi.so.0"};
  };
  const auto warnings = [&](const Words& words) { return job(words, on).warnings; };
  REQUIRE(warnings({"--nproc_per_node", "2", "./hello"}).size() == 1);
  CHECK(warnings({"--nproc_per_node", "2", "./hello"})
            .front()
            .starts_with("/bin/./hello is linked with an MPI that ddprun does not know"));
  CHECK(warnings({"./hello"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "--mpi", "none", "./hello"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "hello.py"}).empty());
  on.environment = {"PMIX_RANK=0"};
  CHECK(warnings({"--nproc_per_node", "2", "./hello"}).size() == 1);
  CHECK(warnings({"--nnodes", "2", "--rdzv_endpoint", "node0", "./hello"}).empty());
  on.environment.clear();
  on.needed_libraries = [](const std::string&) {
    return std::vector<std::string>{"libddp.so.1", "libmpi.so.40"};
  };
  CHECK(warnings({"--nproc_per_node", "2", "./hello"}).empty());
}

TEST_CASE("ddprun warns of a script that imports mpi4py if MPI does not connect its ranks") {
  cli::Host on = host();
  std::string text = "import sys\nfrom mpi4py import MPI\n";
  on.read_file = [&](const std::string& path) {
    return path == "hello.py" ? std::optional(text) : std::nullopt;
  };
  const auto warnings = [&](const Words& words) { return job(words, on).warnings; };
  const std::vector<std::string> expected = {
      "hello.py imports mpi4py, and the ranks of MPI are not connected: each is rank 0 of 1; add "
      "--mpi both to connect them, --mpi none to leave them"};
  CHECK(warnings({"--nproc_per_node", "2", "hello.py"}) == expected);
  CHECK(warnings({"--nproc_per_node", "2", "python3", "hello.py"}) == expected);
  CHECK_FALSE(job({"--nproc_per_node", "2", "hello.py"}, on).may_lack_mpi);
  CHECK(warnings({"hello.py"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "--mpi", "both", "hello.py"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "--mpi", "none", "hello.py"}).empty());
  text = "if given:\n    import mpi4py\n";
  CHECK(warnings({"--nproc_per_node", "2", "hello.py"}).empty());
  CHECK(job({"--nproc_per_node", "2", "hello.py"}, on).may_lack_mpi);
}

TEST_CASE("ranks of MPI are connected as their library needs it") {
  const auto mpi = [](const std::vector<std::string>& libraries, const Words& words,
                      std::vector<std::string> environment = {}) {
    cli::Host on = host();
    on.environment = std::move(environment);
    on.needed_libraries = [libraries](const std::string&) { return libraries; };
    return job(words, on).mpi;
  };
  using agent::Mpi;
  const Words two = {"--nproc_per_node", "2", "./hello"};
  for (const char* library : {"libmpi.so.12", "libmpich.so.12", "libmpifort.so.12"}) {
    CHECK(mpi({library}, two) == Mpi::pmi1);
  }
  for (const char* library : {"libmpi.so.40", "libmpi_mpifh.so.40", "libpmix.so.2"}) {
    CHECK(mpi({library}, two) == Mpi::pmix);
  }
  for (const char* library : {"libpmi2.so.0", "libc.so.6"}) {
    CHECK(mpi({library}, two) == Mpi::none);
  }
  CHECK(mpi({"libddp.so.1", "libmpi.so.12"}, two) == Mpi::none);
  CHECK(mpi({"libmpi.so.12"}, {"./hello"}) == Mpi::none);
  CHECK(mpi({"libmpi.so.12"}, {"--nproc_per_node", "2", "hello.py"}) == Mpi::none);
  CHECK(mpi({}, {"--nproc_per_node", "2", "--mpi", "pmi1", "hello.py"}) == Mpi::pmi1);
  CHECK(mpi({}, {"--nproc_per_node", "2", "--mpi", "both", "hello.py"}) == Mpi::both);
  CHECK(mpi({}, {"--nproc_per_node", "2", "--mpi", "hello.py"}) == Mpi::both);
  CHECK(mpi({}, {"--mpi", "--nproc_per_node", "2", "hello.py"}) == Mpi::both);
  CHECK(mpi({"libmpi.so.12"}, {"--mpi=none", "--nproc_per_node", "2", "./hello"}) == Mpi::none);
  // A lone worker of a node keeps its place in another launcher's job.
  const Words one_of_two = {"--nnodes", "2", "--rdzv_endpoint", "node0", "./hello"};
  CHECK(mpi({"libmpi.so.12"}, one_of_two) == Mpi::pmi1);
  CHECK(mpi({"libmpi.so.12"}, one_of_two, {"PMI_RANK=1"}) == Mpi::none);
  CHECK(mpi({"libmpi.so.12"}, two, {"PMI_RANK=1"}) == Mpi::pmi1);
}

TEST_CASE("ranks of MPI that survive others are those of Open MPI") {
  using agent::Mpi;
  const auto mpi = [](const std::string& library, const Words& words) {
    cli::Host on = host();
    on.needed_libraries = [library](const std::string&) { return std::vector{library}; };
    return job(words, on).mpi;
  };
  CHECK(mpi("libmpi.so.40", {"--mpi_ft", "--nproc_per_node", "2", "./hello"}) == Mpi::pmix);
  CHECK(mpi("libc.so.6", {"--mpi_ft", "--nproc_per_node", "2", "train.py"}) == Mpi::pmix);
  for (const char* other : {"pmi1", "both", "none"}) {
    CHECK(refusal({"--mpi_ft", "--mpi", other, "--nproc_per_node", "2", "./hello"}) ==
          "--mpi_ft needs --mpi pmix: only ranks of Open MPI survive others");
  }
}

TEST_CASE("MPI is refused with --preload") {
  CHECK(refusal({"--mpi", "pmi1", "--preload", "numpy", "train.py"}) ==
        "--mpi does not connect workers that --preload forks: leave out one of them");
}

TEST_CASE("MPI on several nodes needs their number and ddprun's store") {
  const Words begin = {"--mpi", "pmi1", "--rdzv_endpoint", "node0"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), begin.begin(), begin.end());
    more.push_back("./hello");
    return refusal(more);
  };
  CHECK(with({"--nnodes", "513"}) ==
        "--mpi connects the ranks of 512 nodes at most, and --nnodes allows 513: give fewer, or "
        "--mpi none");
  CHECK(
      with({"--nnodes", "2", "--store", "worker"}) ==
      "--mpi on several nodes needs ddprun's store: leave out --store worker, or give --mpi none");
}

TEST_CASE("flags of other launchers are refused with ddprun's flag") {
  const auto [theirs, ours] =
      GENERATE(table<const char*, const char*>({{"--nprocs", "--nproc_per_node"},
                                                {"--num-processes", "--nproc_per_node"},
                                                {"--NPROC_PER_NODE", "--nproc_per_node"},
                                                {"-ppn", "--nproc_per_node"},
                                                {"--ntasks", "--nproc_per_node"},
                                                {"--map-by", "--nproc_per_node"},
                                                {"--gres", "--nproc_per_node gpu"},
                                                {"-N", "--nnodes or --nproc_per_node"},
                                                {"-f", "--hostfile"},
                                                {"--machinefile", "--hostfile"},
                                                {"-x", "--export"},
                                                {"-genv", "--export"},
                                                {"--bind-to", "--numa_binding"},
                                                {"--tag-output", "--prefix"},
                                                {"-v", "--log_level debug"}}));
  CHECK(refusal({theirs, "2", "train"}) ==
        std::string("unknown flag ") + theirs + "; did you mean " + ours + "?");
}

TEST_CASE("flags of other launchers that ddprun does without are refused with what to do") {
  CHECK(refusal({"--oversubscribe", "-np", "4", "train"}) ==
        "unknown flag --oversubscribe; ddprun needs no such flag: leave it out");
  CHECK(refusal({"--mca", "btl_tcp_if_include", "eth0", "train"}) ==
        "unknown flag --mca; for Open MPI set OMPI_MCA_NAME=VALUE in the environment");
}

TEST_CASE("the rank of --pdb has to exist and needs a terminal") {
  CHECK(job({"--nproc_per_node", "2", "--pdb", "1", "train"}).debugged_rank == 1);
  CHECK(refusal({"--nproc_per_node", "2", "--pdb", "2", "train"}) ==
        "--pdb 2: this job has 2 workers, and ranks begin with 0");
  CHECK(job({"--nnodes", "2", "--rdzv_endpoint", "a", "--pdb", "2", "train"}).debugged_rank == 2);
  cli::Host piped = host();
  piped.has_terminal = [] { return false; };
  CHECK(refusal({"--pdb", "0", "train"}, piped) ==
        "--pdb 0 needs a terminal, and stdin or stdout of ddprun is not one");
  CHECK(refusal({"--hosts", "a", "--pdb", "0", "train"}) ==
        "--pdb: the hosts have no terminal; run ddprun on each node instead");
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
  CHECK(refusal({"-y", "3", "train"}) == "unknown flag -y; ddprun --help lists all flags");
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

TEST_CASE("a missing value is an error, even if a flag follows") {
  const std::string sentence =
      "--max_restarts needs a value: a number, 0 or more, or a number per time as in 3/1h";

  CHECK(refusal({"--max_restarts"}) == sentence);
  CHECK(refusal({"--max_restarts", "--standalone", "train"}) == sentence);
  CHECK(refusal({"--max_restarts", "--", "train"}) == sentence);
}

TEST_CASE("a wrong value is refused with the flag and the valid values") {
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

TEST_CASE("a link-local address is refused without an interface of this host") {
  const std::string reason =
      ": a link-local address needs the interface of this host that leads there, as in "
      "fe80::1%eth0 (it has eth0, ib0)";
  CHECK(refusal({"--nnodes", "2", "--rdzv_endpoint", "[fe80::1]:29500", "train"}) ==
        "--rdzv_endpoint fe80::1" + reason);
  CHECK(refusal({"serve", "--nnodes", "2", "--rdzv_endpoint", "[fe80::1]:29500"}) ==
        "--rdzv_endpoint fe80::1" + reason);
  CHECK(refusal({"--nnodes", "2", "--master_addr", "fe80::1%eth9", "train"}) ==
        "--master_addr fe80::1%eth9" + reason);
  CHECK(refusal({"--nnodes", "2", "--master_addr", "gpu", "--local_addr", "fe80::1", "train"}) ==
        "--local_addr fe80::1" + reason);
  CHECK(refusal({"--nnodes", "2", "--rdzv_backend", "etcd", "--rdzv_id", "7", "--rdzv_endpoint",
                 "etcd-1,[fe80::1]:2379", "train"}) == "--rdzv_endpoint fe80::1" + reason);
  CHECK(job({"--nnodes", "2", "--master_addr", "fe80::1%ib0", "train"}).master_addr ==
        "fe80::1%ib0");
  CHECK(job({"--nnodes", "2", "--master_addr", "fe80::1%2", "train"}).master_addr == "fe80::1%2");
  CHECK(job({"--nnodes", "2", "--master_addr", "169.254.1.1", "train"}).master_addr ==
        "169.254.1.1");
}

TEST_CASE("a switch takes no value") {
  CHECK(refusal({"--standalone=1", "train"}) == "--standalone takes no value, but got '1'");
  CHECK(refusal({"--max_restarts", "1", "--no-prefix=false", "--store", "agent", "train"}) ==
        "--no_prefix takes no value, but got 'false'");
  CHECK(refusal({"--help=all"}) == "--help takes no value, but got 'all'");
}

TEST_CASE("a switch may have the value true") {
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

TEST_CASE("ddprun warns of mpirun's second program after a colon") {
  const auto warnings = [](const Words& words) { return job(words).warnings; };
  CHECK(warnings({"--nproc_per_node", "2", "--mpi", "pmix", "./a", ":", "./b"}) ==
        std::vector<std::string>{
            "./a gets ':' and the words after it: ddprun starts one program, so let "
            "it branch by its rank (-- before the program silences this "
            "warning)"});
  CHECK(warnings({"--nproc_per_node", "2", "--mpi", "pmix", "--", "./a", ":", "./b"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "./a", ":", "./b"}).empty());
}

TEST_CASE("ddprun warns of a number of workers after the program if there is one worker") {
  const auto warnings = [](const Words& words) { return job(words).warnings; };
  CHECK(warnings({"train", "--lr", "0.1", "--nproc-per-node", "4"}) ==
        std::vector<std::string>{"--nproc-per-node comes after the program, which gets it: put "
                                 "ddprun's flags before the program (-- before the program "
                                 "silences this warning)"});
  CHECK(warnings({"train.py", "--nnodes=2"}).size() == 1);
  CHECK(warnings({"--", "train", "--nproc_per_node", "4"}).empty());
  CHECK(warnings({"--nproc_per_node", "2", "train", "--nproc_per_node", "4"}).empty());
  CHECK(warnings({"train", "--max_restarts", "4"}).empty());
}
