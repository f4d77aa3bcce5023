// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "agent/worker/worker_command.h"
#include "cli/line/flags.h"
#include "cli/options.h"
#include "tests/catch.h"
#include "tests/cli/command_line.h"
#include "tests/contains.h"

using namespace ddprun;
using Strings = std::vector<std::string>;

namespace {

/// The host of the other tests, but with only these programs.
cli::Host host_with(const Strings& programs, const Strings& environment = {}) {
  cli::Host on = host(environment);
  on.find_program = [programs](const std::string& name) -> Result<std::string> {
    for (const std::string& program : programs) {
      if (program == name) return "/bin/" + name;
    }
    return Error{Errc::not_found, "cannot run " + name + ": no such file"};
  };
  return on;
}

Error refused(const Words& words, const cli::Host& on) {
  const Result<cli::Parsed> parsed = cli::parse(words, on);
  if (parsed) FAIL("was not refused");
  return parsed.error();
}

}  // namespace

TEST_CASE("an unbuffered python3 runs a program whose name ends in .py") {
  const agent::JobSpec spec = job({"models/train.py", "--lr", "0.1"});

  CHECK(spec.program == "/bin/python3");
  CHECK(spec.command == Strings{"/bin/python3", "-u", "models/train.py", "--lr", "0.1"});
}

TEST_CASE("an unbuffered python3 runs a module, which gets all words after it") {
  const char* spelling = GENERATE("-m", "--module");
  INFO(spelling);
  const agent::JobSpec spec = job({spelling, "pkg.train", "-m", "x", "--lr", "0.1"});

  CHECK(spec.program == "/bin/python3");
  CHECK(spec.command == Strings{"/bin/python3", "-u", "-m", "pkg.train", "-m", "x", "--lr", "0.1"});
}

TEST_CASE("other options may stand between -m and its module, as under torchrun") {
  const agent::JobSpec spec = job({"-m", "--nproc_per_node", "2", "pkg.train"});

  CHECK(spec.local_size == 2);
  CHECK(spec.command == Strings{"/bin/python3", "-u", "-m", "pkg.train"});
}

TEST_CASE("PYTHON_EXEC names the interpreter, unless it is empty") {
  const cli::Host other = host({"PYTHON_EXEC=python3.11"});

  CHECK(job({"train.py"}, other).command == Strings{"/bin/python3.11", "-u", "train.py"});
  CHECK(job({"-m", "train"}, other).program == "/bin/python3.11");
  CHECK(job({"train.py"}, host({"PYTHON_EXEC="})).program == "/bin/python3");
  CHECK(job({"train"}, other).program == "/bin/train");
}

TEST_CASE("no_python executes the program itself, even if its name ends in .py") {
  const agent::JobSpec spec = job({"--no_python", "train.py", "x"});

  CHECK(spec.program == "/bin/train.py");
  CHECK(spec.command == Strings{"train.py", "x"});
}

TEST_CASE("only a name that ends in .py makes a script") {
  const char* name = GENERATE("train.pyc", "train.PY", "train.py.sh", "py", "python3");
  INFO(name);

  CHECK(job({name, "x.py"}).command == Strings{name, "x.py"});
}

TEST_CASE("torchrun's variables for --module and --no_python count") {
  CHECK(job({"train"}, host({"PET_MODULE=1"})).command ==
        Strings{"/bin/python3", "-u", "-m", "train"});
  CHECK(job({"train.py"}, host({"PET_NO_PYTHON=1"})).command == Strings{"train.py"});
  CHECK(job({"train"}, host({"PET_MODULE=0"})).command == Strings{"train"});
  CHECK(refusal({"train"}, host({"PET_MODULE=true"})) == "PET_MODULE expects 0 or 1, not 'true'");
}

TEST_CASE("a module without python is refused") {
  CHECK(refusal({"--no_python", "-m", "pkg.train"}) ==
        "--module is run by python, which --no_python forbids: give one of the two");
}

TEST_CASE("a missing module is an error, and -m takes no value") {
  CHECK(refusal({"-m"}) ==
        "no module to run: ddprun [options] -m module [args...]; see ddprun --help");
  CHECK(refusal({"--module=pkg", "x"}) == "--module takes no value, but got 'pkg'");
  CHECK(refusal({"-m=pkg", "x"}) == "--module takes no value, but got 'pkg'");
  CHECK(refusal({"-mpkg", "x"}) == "unknown flag -mpkg; did you mean -m pkg?");
}

TEST_CASE("a missing interpreter exits with 127 and names the search") {
  const Error nowhere = refused({"train.py"}, host_with({"train"}));
  CHECK(nowhere.message ==
        "cannot run train.py: python3 not found in PATH; PYTHON_EXEC=FILE names another "
        "interpreter");
  CHECK(cli::exit_code(nowhere) == 127);

  const Error chosen = refused({"train.py"}, host_with({"python3"}, {"PYTHON_EXEC=/opt/py"}));
  CHECK(chosen.message == "PYTHON_EXEC: cannot run /opt/py: no such file");
  CHECK(cli::exit_code(chosen) == 127);
}

TEST_CASE("an interpreter without execute permission is not reported as missing") {
  cli::Host on = host();
  on.find_program = [](const std::string& name) -> Result<std::string> {
    return Error{Errc::not_executable, "cannot run /bin/" + name + ": permission denied"};
  };

  CHECK(refused({"train.py"}, on).message == "cannot run /bin/python3: permission denied");
}

TEST_CASE("an unreadable script is an error before an interpreter is searched") {
  cli::Host on = host_with({});
  on.check_script = [](const std::string& name) -> Result<> {
    return Error{Errc::not_found, "cannot run " + name + ": no such file"};
  };

  CHECK(refused({"train.py"}, on).message == "cannot run train.py: no such file");
}

TEST_CASE("each worker gets its local rank before the program's own arguments") {
  const auto [style, flag] = GENERATE(table<const char*, std::string>(
      {{"dash", "--local-rank=1"}, {"underscore", "--local_rank=1"}}));
  const auto second = [style = style](Words words) {
    words.insert(words.begin(), {"--nproc_per_node", "2", "--pass_local_rank", style});
    return agent::worker_command(job(words), 1);
  };

  CHECK(second({"train.py", "--lr", "1"}) ==
        Strings{"/bin/python3", "-u", "train.py", flag, "--lr", "1"});
  CHECK(second({"-m", "train", "--lr", "1"}) ==
        Strings{"/bin/python3", "-u", "-m", "train", flag, "--lr", "1"});
  CHECK(second({"train", "--lr", "1"}) == Strings{"train", flag, "--lr", "1"});
  CHECK(second({"--no_python", "train.py"}) == Strings{"train.py", flag});
}

TEST_CASE("by default ddprun adds no argument, and use_env restores the default") {
  const cli::Host asked = host({"DDPRUN_PASS_LOCAL_RANK=dash"});

  CHECK(agent::worker_command(job({"train", "x"}), 0) == Strings{"train", "x"});
  CHECK(agent::worker_command(job({"train"}, asked), 0) == Strings{"train", "--local-rank=0"});
  CHECK(agent::worker_command(job({"--use_env", "train"}, asked), 0) == Strings{"train"});
  CHECK(agent::worker_command(job({"--use-env", "train"}), 0) == Strings{"train"});
  CHECK(refusal({"--pass_local_rank", "both", "train"}) ==
        "--pass_local_rank expects dash or underscore, not 'both'");
}

TEST_CASE("the role comes from the flag or its variable, else it is default") {
  CHECK(job({"train"}).role == "default");
  CHECK(job({"--role", "trainer", "train"}).role == "trainer");
  CHECK(job({"train"}, host({"PET_ROLE=reader"})).role == "reader");
  CHECK(refusal({"--role", "", "train"}).starts_with("--role expects 1 to 256 characters"));
}

TEST_CASE("a dry run shows the command line that python gets, with each worker's rank and role") {
  const std::string text = printed({"--nproc_per_node", "2", "--pass_local_rank", "dash", "--role",
                                    "trainer", "--dry_run", "train.py", "--lr", "0.1"});

  CHECK(text.find(" /bin/python3 -u train.py --local-rank=0 --lr 0.1\nrank 1: ") !=
        std::string::npos);
  CHECK(text.ends_with(" /bin/python3 -u train.py --local-rank=1 --lr 0.1\n"));
  CHECK(text.find(" ROLE_NAME=trainer ") != std::string::npos);
}

TEST_CASE("flags that tune torchrun's internals are accepted without effect") {
  const agent::JobSpec spec = job({"--monitor_interval", "0.1", "--start_method", "forkserver",
                                   "--event-log-handler=null", "train"},
                                  host({"PET_RUN_PATH=0"}));

  CHECK(spec.command == Strings{"train"});
  CHECK(
      refusal({"--monitor_interval", "often", "train"}).starts_with("--monitor_interval expects "));
  CHECK(refusal({"--start_method", "exec", "train"}) ==
        "--start_method expects spawn, fork or forkserver, not 'exec'");
  CHECK(
      refusal({"train"}, host({"PET_START_METHOD=exec"})).starts_with("PET_START_METHOD expects "));
}

TEST_CASE("torchrun's plug-ins are refused, with the alternative") {
  CHECK(refusal({"--logs_specs", "mine", "train"}) ==
        "--logs_specs 'mine' is a Python plug-in of torchrun, which ddprun does not load: leave it "
        "out, "
        "and see Output in ddprun --help");
  CHECK(refusal({"--event_log_handler", "mine", "train"}) ==
        "--event_log_handler 'mine' is a Python plug-in of torchrun, which ddprun does not load: "
        "give "
        "--events FILE, which gets a JSON object per line");
}

TEST_CASE("the flag --run_path runs a path of any name as torchrun does, even with --no_python") {
  for (const agent::JobSpec& spec : {job({"--run_path", "--no_python", "/x/train", "--lr", "1"}),
                                     job({"/x/train", "--lr", "1"}, host({"PET_RUN_PATH=1"}))}) {
    REQUIRE(spec.command.size() == 7);
    CHECK(spec.command[0] == "/bin/python3");
    CHECK(spec.command[2] == "-c");
    CHECK(tests::contains(spec.command[3], "runpy.run_path("));
    CHECK(spec.command[4] == "/x/train");
    CHECK(spec.own_arguments == 5);
  }
}

TEST_CASE("ddprun launch passes the local rank, as torch.distributed.launch does") {
  CHECK(job({"launch", "train.py"}).local_rank_flag == "--local-rank");
  CHECK(job({"launch", "--use_env", "train.py"}).local_rank_flag.empty());
  CHECK(job({"launch", "--pass_local_rank=underscore", "train.py"}).local_rank_flag ==
        "--local_rank");
  CHECK(job({"launch", "train.py"}, host({"DDPRUN_PASS_LOCAL_RANK=underscore"})).local_rank_flag ==
        "--local-rank");
  CHECK(job({"--", "launch"}).command.front() == "launch");
}

TEST_CASE("serve refuses the flags of a program, and ignores their variables") {
  CHECK(refusal({"serve", "--rdzv_endpoint", ":29500", "-m"}).starts_with("--module is not for "));
  CHECK(served({"serve", "--rdzv_endpoint", ":29500"}, host({"PET_MODULE=1", "PET_RUN_PATH=1"}))
            .master_port == 29500);
}

TEST_CASE("no two flags share a letter") {
  for (const cli::Flag& one : cli::flags()) {
    for (const cli::Flag& other : cli::flags()) {
      CHECK((&one == &other || one.letter == '\0' || one.letter != other.letter));
    }
  }
  CHECK(printed({"--help"}).find("  --module, -m\n") != std::string::npos);
}

TEST_CASE("the flag --preload names the modules that a Python program's workers share") {
  CHECK(job({"--preload", "torch,numpy.linalg", "train.py"}).preload ==
        Strings{"torch", "numpy.linalg"});
  CHECK(job({"--preload=torch", "-m", "pkg"}).preload == Strings{"torch"});
  CHECK(job({"train.py", "--preload", "torch"}).preload.empty());
  CHECK(tests::contains(printed({"--preload", "a,b", "--dry_run", "train.py"}),
                        "imported once: a, b\n"));
  for (const char* value : {"", "torch,", "a b", ".a", "a.", "a..b", "a-b", "a;b"}) {
    INFO(value);
    const Error error = refused({"--preload", value, "train.py"}, host_with({"python3"}));
    CHECK(error.code == Errc::usage);
    CHECK(tests::contains(error.message, "comma-separated names of Python modules"));
  }
}

TEST_CASE("the flag --preload is refused for a program that python does not run") {
  const Error error = refused({"--preload", "torch", "sh"}, host_with({"sh", "python3"}));
  CHECK(error.code == Errc::usage);
  CHECK(tests::contains(error.message, "--preload is for Python programs"));
  CHECK(tests::contains(error.message, "'sh' is executed directly"));
  refused({"--preload", "torch", "--no_python", "train.py"}, host_with({"train.py"}));
}
