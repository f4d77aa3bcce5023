// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <string>

#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;

TEST_CASE("the environment sets the default of a flag, and the command line overrides it") {
  const cli::Host on = host({"PET_NPROC_PER_NODE=2", "PET_MAX_RESTARTS=5", "DDPRUN_STORE=worker",
                             "PET_STANDALONE=0", "PET_NODE_RANK="});

  const agent::JobSpec spec = job({"--max_restarts", "1", "train"}, on);

  CHECK(spec.local_size == 2);
  CHECK(spec.max_restarts == 1);
  CHECK(spec.store == agent::StoreHost::worker);
  CHECK_FALSE(spec.node_rank);
}

TEST_CASE(
    "a wrong value in the environment is refused by its variable, unless a flag overrides it") {
  const cli::Host on = host({"PET_MAX_RESTARTS=many"});

  CHECK(
      refusal({"train"}, on) ==
      "PET_MAX_RESTARTS expects a number, 0 or more, or a number per time as in 3/1h, not 'many'");
  CHECK(job({"--max_restarts", "1", "train"}, on).max_restarts == 1);
}

TEST_CASE("the command line also overrides a variable of the opposite flag") {
  CHECK(job({"--prefix", "p ", "train"}, host({"DDPRUN_NO_PREFIX=1"})).prefix == "p ");
  CHECK_FALSE(job({"--no_prefix", "train"}, host({"DDPRUN_PREFIX=p "})).prefix);
}

TEST_CASE("a switch's variable is a number, and any number but 0 means on, as under torchrun") {
  CHECK(job({"train"}, host({"PET_STANDALONE=2", "PET_RDZV_ENDPOINT=a:1"})).master_port == 0);
  CHECK(job({"train"}, host({"PET_STANDALONE=-1", "PET_RDZV_ENDPOINT=a:1"})).master_port == 0);
  CHECK(job({"train"}, host({"PET_STANDALONE=00", "PET_RDZV_ENDPOINT=a:1"})).master_port == 1);
  const std::string word = GENERATE("true", "yes", "on", "1.0", "1x", " ");
  CHECK(refusal({"train"}, host({"PET_STANDALONE=" + word})) ==
        "PET_STANDALONE expects 0 or 1, not '" + word + "'");
}

TEST_CASE("torchrun's two variables for the grace count, and PET_SHUTDOWN_TIMEOUT overrides") {
  using std::chrono::seconds;
  CHECK(job({"train"}, host({"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120"})).stop_grace == seconds(120));
  const cli::Host both = host({"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=120", "PET_SHUTDOWN_TIMEOUT=60"});
  CHECK(job({"train"}, both).stop_grace == seconds(60));
  CHECK(job({"--shutdown_timeout", "5", "train"}, both).stop_grace == seconds(5));
  CHECK(refusal({"train"}, host({"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=-1"}))
            .starts_with("TORCH_ELASTIC_SHUTDOWN_TIMEOUT expects a time"));
}

TEST_CASE("torchrun's variable that leaves the store to rank 0 means --store worker") {
  const std::string variable = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=";
  CHECK(job({"train"}, host({variable + "1"})).store == agent::StoreHost::worker);
  CHECK(job({"train"}, host({variable + "0"})).store == agent::StoreHost::agent);
  CHECK(job({"--store", "agent", "train"}, host({variable + "1"})).store ==
        agent::StoreHost::agent);
}

TEST_CASE("only the environment of the given host is read") {
  REQUIRE(setenv("PET_MAX_RESTARTS", "7", 1) == 0);
  const int restarts = job({"train"}).max_restarts;
  unsetenv("PET_MAX_RESTARTS");

  CHECK(restarts == 0);
}

TEST_CASE("torchrun's template is the default prefix") {
  const cli::Host torchruns =
      host({"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=[${role_name}-${local_rank}]"});
  CHECK(job({"train"}, torchruns).prefix == "[${role_name}-${local_rank}]");
  CHECK(job({"--prefix", "p ", "train"}, torchruns).prefix == "p ");
  CHECK_FALSE(job({"--no_prefix", "train"}, torchruns).prefix);
  CHECK(refusal({"train"}, host({"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE=${rnak}"}))
            .starts_with("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE: prefix '${rnak}': unknown macro"));
}

TEST_CASE("ddprun knows torchrun's flags and variables for log files") {
  const auto logs = [](const Words& words, const cli::Host& on = host()) {
    return job(words, on).logs;
  };
  CHECK_FALSE(logs({"train"}).wants_files());
  CHECK(logs({"-r3", "train"}).redirects.others == 3);
  CHECK(logs({"--nproc_per_node", "12", "-t", "11:1", "train"}).tees.named.at(11) == 1);
  CHECK(logs({"--tee=1", "train"}, host({"PET_TEE=2", "PET_REDIRECTS=0:1"})).tees.others == 1);
  CHECK(logs({"train"}, host({"PET_REDIRECTS=0:1"})).redirects.holds(0, 1));
  CHECK(logs({"--nproc_per_node=13", "--local-ranks-filter", "0,12", "train"}).shown ==
        std::set<int>{0, 12});
  CHECK(logs({"--duplicate-stdout-filters", "a,,b,c", "train"}).duplicate_out_filters.size() == 2);
  CHECK(logs({"train"}, host({"PET_DUPLICATE_STDERR_FILTERS=x"})).wants_files());
  CHECK(job({"train"}, host({"PET_LOG_DIR=/logs"})).log_dir == "/logs");

  CHECK(refusal({"-r", "4", "train"}).starts_with("--redirects expects 0, 1, 2 or 3 for every"));
  CHECK(refusal({"train"}, host({"PET_TEE=1:"})).starts_with("PET_TEE expects 0, 1, 2 or 3"));
  CHECK(refusal({"--local_ranks_filter", "a", "train"}).ends_with("not 'a'"));
  CHECK(refusal({"--duplicate_stderr_filters", "a,", "train"}).ends_with("not 'a,'"));
  CHECK(
      refusal({"--nproc_per_node=2", "--local_ranks_filter", "1,2", "train"}) ==
      "--local_ranks_filter names local rank 2, but this node has 2 workers, and local ranks begin "
      "with 0");
  CHECK(
      refusal({"-r", "5:3", "train"}).starts_with("--redirects names local rank 5, but this node"));
  CHECK(refusal({"train"}, host({"PET_TEE=1:3"})).starts_with("--tee names local rank 1"));
  CHECK(logs({"--nnodes", "2", "--rdzv_endpoint", "gpu-07", "-t", "5:3", "train"}).tees.any());
  CHECK(
      refusal({"--log_dir", "", "train"}).starts_with("--log_dir expects the name of a directory"));
}
