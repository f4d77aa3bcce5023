// SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <string>
#include <tuple>
#include <vector>

#include "tests/catch.h"
#include "tests/cli/command_line.h"

using namespace ddprun;
using Signals = std::vector<int>;

namespace {

Signals handled(const char* list) {
  return job({"--signals_to_handle", list, "train"}).signals_to_handle;
}

}  // namespace

TEST_CASE("torchrun's four signals stop a job that names none") {
  CHECK(job({"train"}).signals_to_handle == Signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
}

TEST_CASE("signals are named with or without SIG, in any case, each once") {
  CHECK(handled("SIGTERM,SIGUSR1") == Signals{SIGTERM, SIGUSR1});
  CHECK(handled("term, sigUsr2 ,INT,SIGTERM") == Signals{SIGTERM, SIGUSR2, SIGINT});
  CHECK(handled("xcpu,SIGPWR,ALRM,VTALRM,PROF,POLL,SIGIO") ==
        Signals{SIGXCPU, SIGPWR, SIGALRM, SIGVTALRM, SIGPROF, SIGIO});
}

TEST_CASE("the signals can come from the environment") {
  CHECK(job({"train"}, host({"PET_SIGNALS_TO_HANDLE=SIGUSR1"})).signals_to_handle ==
        Signals{SIGUSR1});
}

TEST_CASE("a signal that is unknown or can mean no end is refused with the reason") {
  const auto [list, reason] = GENERATE(table<const char*, const char*>({
      {"SIGTREM", "does not know 'SIGTREM'; did you mean SIGTERM?"},
      {"INT,usr3", "does not know 'usr3'; did you mean SIGUSR1?"},
      {"15", "does not know '15'; it takes names such as SIGTERM,SIGUSR1"},
      {"SIGTERM,,SIGINT", "does not know ''; it takes names such as SIGTERM,SIGUSR1"},
      {"SIGTERM\x1b", "does not know 'SIGTERM\\x1b'; did you mean SIGTERM?"},
      {"", "does not know ''; it takes names such as SIGTERM,SIGUSR1"},
      {"SIGRTMIN", "does not know 'SIGRTMIN'; it takes names such as SIGTERM,SIGUSR1"},
      {"TERM,KILL", "cannot have SIGKILL: no process can take it"},
      {"stop", "cannot have SIGSTOP: no process can take it"},
      {"SIGSEGV", "cannot have SIGSEGV: it tells a process of an error of its own"},
      {"PIPE", "cannot have SIGPIPE: it tells a process of an error of its own"},
      {"XFSZ", "cannot have SIGXFSZ: it tells a process of an error of its own"},
      {"CHLD", "cannot have SIGCHLD: it does not ask a process to end"},
      {"CONT", "cannot have SIGCONT: it does not ask a process to end"},
      {"WINCH", "cannot have SIGWINCH: it does not ask a process to end"},
  }));
  INFO(list);

  CHECK(refusal({"--signals_to_handle", list, "train"}) ==
        "--signals_to_handle " + std::string(reason));
}
