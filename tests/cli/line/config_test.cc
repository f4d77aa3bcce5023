// SPDX-License-Identifier: Apache-2.0
#include "cli/line/config.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/line/config_file.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using namespace std::chrono_literals;

namespace {

/// A host whose current directory has this ddprun.toml.
cli::Host having(const std::string& text, std::vector<std::string> environment = {}) {
  cli::Host on = host(std::move(environment));
  on.read_config = [text](const std::string& path, bool named) {
    CHECK(named == (path != "ddprun.toml"));
    return Result<std::optional<std::string>>(text);
  };
  on.directory = [] { return std::string("/work"); };
  on.executable = [] { return std::string("/opt/ddprun"); };
  return on;
}

std::string refused(const std::string& text) {
  return refusal({"train"}, having(text));
}

/// A ddprun.toml in a temporary folder.
class File {
 public:
  explicit File(const std::string& text) {
    folder_ = must_make();
    std::ofstream(path()) << text;
  }
  ~File() { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/ddprun.toml"; }
  std::string folder() const { return folder_; }

 private:
  static std::string must_make() {
    std::string name = std::filesystem::temp_directory_path() / "ddprun_config_XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    return name;
  }
  std::string folder_;
};

}  // namespace

TEST_CASE("a configuration file sets flags by their names") {
  const agent::JobSpec spec = job({"train"}, having(R"(
nproc_per_node = 4          # a number
max-restarts = "3/1h"       # dashes are underscores
lease = 12.5
no_prefix = true
signals_to_handle = ["SIGTERM", "SIGUSR1"]
)"));
  CHECK(spec.local_size == 4);
  CHECK(spec.max_restarts == 3);
  CHECK(spec.lease == 12'500ms);
  CHECK_FALSE(spec.prefix);
  CHECK(spec.signals_to_handle == std::vector<int>{SIGTERM, SIGUSR1});
}

TEST_CASE("values come from the command line, else the environment, the file, the scheduler") {
  const std::string text = "nproc_per_node = 4\nmax_restarts = 4\nlease = 40\n";
  const agent::JobSpec spec = job({"--nproc_per_node", "2", "train"},
                                  having(text, {"PET_NPROC_PER_NODE=3", "PET_MAX_RESTARTS=3"}));
  CHECK(spec.local_size == 2);
  CHECK(spec.max_restarts == 3);
  CHECK(spec.lease == 40s);

  const std::vector<std::string> slurm = {"SLURM_JOB_ID=1", "SLURM_JOB_NODELIST=gpu-07",
                                          "SLURM_JOB_NUM_NODES=1", "SLURM_GPUS_ON_NODE=8"};
  CHECK(job({"train"}, having("", slurm)).local_size == 8);
  CHECK(job({"train"}, having(text, slurm)).local_size == 4);
}

TEST_CASE("a flag given elsewhere also overrides the file's flags that exclude it") {
  const std::string text =
      "rdzv_endpoint = 'a:1'\nstandalone = true\nno_prefix = true\nquiet = true";
  CHECK(job({"--master_addr", "b", "--nnodes", "2", "train"}, having(text)).master_addr == "b");
  CHECK(job({"train"}, having(text, {"DDPRUN_PREFIX=p "})).prefix == "p ");
  CHECK(job({"--log_level", "debug", "train"}, having(text)).log_level == log::Level::debug);
  CHECK(job({"train"}, having(text)).log_level == log::Level::error);
  CHECK(job({"train"}, having(text)).master_addr == "127.0.0.1");
}

TEST_CASE("a wrong file is refused with its line, its key, and the valid values") {
  CHECK(refused("\nnproc_per_nod = 4") ==
        "ddprun.toml:2: no flag is called nproc_per_nod; did you mean nproc_per_node?");
  CHECK(refused("xyz = 4") ==
        "ddprun.toml:1: no flag is called xyz; ddprun --help lists all flags");
  CHECK(refused("max_restarts = 'many'") ==
        "ddprun.toml:1: max_restarts expects a number, 0 or more, or a number per time as in 3/1h, "
        "not 'many'");
  CHECK(refused("standalone = 'yes'") == "ddprun.toml:1: standalone expects true or false");
  CHECK(refused("nproc_per_node = true") ==
        "ddprun.toml:1: nproc_per_node expects a string, a number or an array of them");
  CHECK(refused("hosts = ['a,b', 'c']") ==
        "ddprun.toml:1: hosts expects strings or numbers without commas in its array; write a list "
        "with them as one string");
  CHECK(refused("[workers]\nnproc_per_node = 4") ==
        "ddprun.toml:1: workers is a table: the file has flags alone, NAME = VALUE");
  CHECK(refused("nnodes = 1\n\nnnode = 2") ==
        "ddprun.toml:3: nnode sets what nnodes sets at ddprun.toml:1");
  CHECK(refused("help = true") == "ddprun.toml:1: help works only on the command line");
  CHECK(refused("config = 'x'") == "ddprun.toml:1: config works only on the command line");
  CHECK(refused("role = \"a\\u0000b\"") ==
        "ddprun.toml:1: role has a zero byte, which no flag can have");
  CHECK(refused("lease = \nlease = 3").starts_with("ddprun.toml:1: "));
  CHECK(refused("'-r' = 3").starts_with("ddprun.toml:1: no flag is called -r"));
  CHECK(refused("'lease=3' = 3").starts_with("ddprun.toml:1: no flag is called lease=3"));
}

TEST_CASE("the flag --config names another file, or none") {
  cli::Host on = host({"DDPRUN_CONFIG=by_variable"});
  on.read_config = [](const std::string& path, bool named) -> Result<std::optional<std::string>> {
    if (path == "missing") return Error{Errc::usage, "cannot be read: No such file"};
    CHECK(named);
    return std::optional(std::string(path == "by_variable" ? "lease = 20" : "lease = 30"));
  };
  CHECK(job({"train"}, on).lease == 20s);
  CHECK(job({"--config", "x", "train"}, on).lease == 30s);
  CHECK(job({"--config", "none", "train"}, on).lease == 10s);
  CHECK(refusal({"--config", "missing", "train"}, on) ==
        "--config missing: cannot be read: No such file");
}

TEST_CASE("ddprun warns of a file that cannot be trusted, and does not read it") {
  cli::Host on = host();
  on.read_config = [](const std::string&, bool) -> Result<std::optional<std::string>> {
    return Error{Errc::usage, "belongs to user 7, and this is user 0"};
  };
  const agent::JobSpec spec = job({"train"}, on);
  REQUIRE(spec.warnings.size() == 1);
  CHECK(spec.warnings.front() ==
        "./ddprun.toml is not read: it belongs to user 7, and this is user 0; to use it "
        "anyway: --config ddprun.toml");
}

TEST_CASE("a dry run names the source of each value") {
  const cli::Host on =
      having("lease = 20\nno_prefix = false\nrole = 'a b'", {"PET_MAX_RESTARTS=3"});
  CHECK(printed({"--dry_run", "train"}, on)
            .starts_with("settings: --lease 20 (ddprun.toml:1), --role 'a b' (ddprun.toml:3), "
                         "--max_restarts 3 (PET_MAX_RESTARTS)\nnode 0 of 1 "));
  CHECK(printed({"--dry_run", "train"}).starts_with("node 0 of 1 "));
}

TEST_CASE("agents on other hosts get the file's values as flags, and read no file") {
  cli::Host on =
      having("hosts = ['a', 'b:2']\nlease = 20\nmax_restarts = 3\nquiet = true\nnnodes = 2",
             {"PET_MAX_RESTARTS=1"});
  const auto job = std::get<remote::Job>(must(cli::parse(Words{"--lease", "30", "train"}, on)));
  REQUIRE(job.hosts.size() == 2);
  const std::vector<std::string>& words = job.hosts[1].order.arguments;
  const auto has = [&](const char* word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  CHECK(has("--config=none"));
  CHECK(has("--quiet"));
  CHECK(has("--lease=30"));
  CHECK(has("--nnodes=2:2"));
  CHECK_FALSE(has("--lease=20"));
  CHECK_FALSE(has("--max_restarts=3"));
  CHECK(std::none_of(words.begin(), words.end(),
                     [](const std::string& word) { return word.starts_with("--hosts"); }));
}

TEST_CASE("a file that was found counts only if no other user could have written it") {
  const File file("lease = 20");
  const auto found = [&] { return cli::read_config_file(file.path(), false); };
  CHECK(must(found()) == "lease = 20");
  REQUIRE(chmod(file.path().c_str(), 0666) == 0);
  CHECK(found().error().message == "can be written by everybody");
  CHECK(must(cli::read_config_file(file.path(), true)) == "lease = 20");

  const std::string link = file.folder() + "/link";
  REQUIRE(symlink(file.path().c_str(), link.c_str()) == 0);
  CHECK(cli::read_config_file(link, false).error().message == "is a symbolic link");
  CHECK(must(cli::read_config_file(link, true)) == "lease = 20");

  if (getuid() != 0) return;  // only root can change a file's owner
  REQUIRE(chmod(file.path().c_str(), 0644) == 0);
  REQUIRE(chown(file.path().c_str(), 4711, 4711) == 0);
  CHECK(found().error().message == "belongs to user 4711, and this is user 0");
}

TEST_CASE("a file that is too long or not regular is not read") {
  const File file(std::string(cli::kLongestConfig + 1, '#'));
  CHECK(cli::read_config_file(file.path(), true).error().message == "is longer than 16384 bytes");
  CHECK(cli::read_config_file(file.folder(), true).error().message == "is not a regular file");
  const std::string pipe = file.folder() + "/pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(cli::read_config_file(pipe, false).error().message == "is not a regular file");
  CHECK_FALSE(must(cli::read_config_file(file.folder() + "/none", false)).has_value());
  CHECK(cli::read_config_file(file.folder() + "/none", true).has_error());
}

TEST_CASE("a file with very deep tables or arrays is refused") {
  for (const std::string& part : {std::string("a."), std::string("["), std::string("{a=")}) {
    std::string text = part == "a." ? "" : "x = ";
    while (text.size() + part.size() < cli::kLongestConfig - 8) text += part;
    CHECK(cli::parse_config(text + (part == "a." ? "a = 1" : ""), "x").has_error());
  }
}
