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

TEST_CASE("torchrun's four signals stop a job by default") {
  CHECK(job({"train"}).signals_to_handle == Signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT});
}

TEST_CASE("signals are named with or without SIG, in either case, and duplicates are dropped") {
  CHECK(handled("SIGTERM,SIGUSR1") == Signals{SIGTERM, SIGUSR1});
  CHECK(handled("term, sigUsr2 ,INT,SIGTERM") == Signals{SIGTERM, SIGUSR2, SIGINT});
  CHECK(handled("xcpu,SIGPWR,ALRM,VTALRM,PROF,POLL,SIGIO") ==
        Signals{SIGXCPU, SIGPWR, SIGALRM, SIGVTALRM, SIGPROF, SIGIO});
}

TEST_CASE("the signals can come from the environment") {
  CHECK(job({"train"}, host({"PET_SIGNALS_TO_HANDLE=SIGUSR1"})).signals_to_handle ==
        Signals{SIGUSR1});
}

TEST_CASE("a signal that is unknown or does not ask to end is refused with the reason") {
  const auto [list, reason] = GENERATE(table<const char*, const char*>({
      {"SIGTREM", "got the unknown signal 'SIGTREM'; did you mean SIGTERM?"},
      {"INT,usr3", "got the unknown signal 'usr3'; did you mean SIGUSR1?"},
      {"15", "got the unknown signal '15'; it takes names such as SIGTERM,SIGUSR1"},
      {"SIGTERM,,SIGINT", "got the unknown signal ''; it takes names such as SIGTERM,SIGUSR1"},
      {"SIGTERM\x1b", "got the unknown signal 'SIGTERM\\x1b'; did you mean SIGTERM?"},
      {"", "got the unknown signal ''; it takes names such as SIGTERM,SIGUSR1"},
      {"SIGRTMIN", "got the unknown signal 'SIGRTMIN'; it takes names such as SIGTERM,SIGUSR1"},
      {"TERM,KILL", "cannot handle SIGKILL: no process can catch it"},
      {"stop", "cannot handle SIGSTOP: no process can catch it"},
      {"SIGSEGV", "cannot handle SIGSEGV: it reports an error of the process itself"},
      {"PIPE", "cannot handle SIGPIPE: it reports an error of the process itself"},
      {"XFSZ", "cannot handle SIGXFSZ: it reports an error of the process itself"},
      {"CHLD", "cannot handle SIGCHLD: it does not ask a process to end"},
      {"CONT", "cannot handle SIGCONT: it does not ask a process to end"},
      {"WINCH", "cannot handle SIGWINCH: it does not ask a process to end"},
  }));
  INFO(list);

  CHECK(refusal({"--signals_to_handle", list, "train"}) ==
        "--signals_to_handle " + std::string(reason));
}
