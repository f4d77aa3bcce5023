// SPDX-License-Identifier: Apache-2.0
// The lower bound for launchers. Starts N copies of a program and waits for all. If one fails, it
// kills the others, and starts N new ones while restarts are left.
//   bench_bare_loop RESTARTS N PROGRAM [ARGS...]
#include <cstdlib>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int kMost = 1024;
pid_t workers[kMost];

bool start(int count, char** command, int generation) {
  char text[16];
  snprintf(text, sizeof text, "%d", generation);
  setenv("TORCHELASTIC_RESTART_COUNT", text, 1);
  for (int rank = 0; rank < count; rank++) {
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    workers[rank] = fork();
    if (workers[rank] < 0) return false;
    if (workers[rank] == 0) {
      execv(command[0], command);
      _exit(127);
    }
  }
  return true;
}

/// Whether all have ended with 0; the first failure kills the others.
bool wait_for_all(int count) {
  bool failed = false;
  for (int left = count; left > 0; left--) {
    int status = 0;
    const pid_t ended = wait(&status);
    if (status == 0 || failed) continue;
    failed = true;
    for (int rank = 0; rank < count; rank++) {
      if (workers[rank] != ended) kill(workers[rank], SIGKILL);
    }
  }
  return !failed;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 3 ? atoi(argv[2]) : 0;
  if (count < 1 || count > kMost) return 2;
  for (int generation = 0; generation <= atoi(argv[1]); generation++) {
    if (!start(count, argv + 3, generation)) return 125;
    if (wait_for_all(count)) return 0;
  }
  return 1;
}
