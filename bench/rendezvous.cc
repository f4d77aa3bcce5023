// SPDX-License-Identifier: Apache-2.0
// How quickly the nodes of a job find each other and learn of a failure, all on this machine.
//   bench_rendezvous [RUNS [PART]]    RUNS of each (default 7; a third of it for slow launchers and
//                                     crowds); PART: nodes, faults, crowd, sessions, secret
//                                     (default: all)
// nodes   real agents with one worker each, side by side with bare fork+exec and with torchrun's
//         c10d rendezvous ($DDPRUN_BENCH_TORCHRUN is its command if not in the PATH)
// faults  real agents; from the failure of a worker, or the kill of an agent, until workers of the
//         other nodes get SIGTERM
// crowd   thousands of simulated agents in two processes and one real server in a third; needs
//         a hard limit of 10,100 open files
// sessions  the master's decisions about thousands of nodes, without sockets
// secret  crowd, with and without a secret, in turns
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/rendezvous_parts.h"

int main(int argc, char** argv) {
  using namespace ddprun::bench;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const int runs = argc > 1 ? std::max(1, std::atoi(argv[1])) : 7;
  const std::string part = argc > 2 ? argv[2] : "";
  if (part.empty() || part == "nodes") compare_starts(runs);
  if (part.empty() || part == "faults") measure_faults(runs);
  if (part.empty() || part == "crowd") measure_crowds((runs + 2) / 3);
  if (part.empty() || part == "sessions") measure_sessions();
  if (part.empty() || part == "secret") measure_secret((runs + 2) / 3);
}
