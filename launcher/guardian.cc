// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian.h"

#include <cerrno>
#include <csignal>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/descendants.h"
#include "launcher/exit_status.h"
#include "launcher/signals.h"

namespace ddprun::launcher {
namespace {

pid_t guardian = 0;  // as the agent knows it

void become_agent(pid_t parent) {
  guardian = parent;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
}

/// Until the agent ends: signals go down, and orphans that outlived the agent's care are reaped.
ExitStatus wait_for_agent(pid_t agent) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == agent) return ExitStatus(status);
    if (ended > 0) continue;
    const int signal = wait_for_signal();
    if (signal != SIGCHLD) kill(agent, signal);  // it is ours and not reaped: its pid is its own
  }
}

int end_for(ExitStatus agent) {
  kill_all_descendants();
  if (agent.signal() != 0) {
    log::error("ddprun's agent was " + agent.text() + "; all its workers were killed");
  }
  return agent.code();
}

}  // namespace

Result<int> guard(const std::function<int()>& agent) {
  const pid_t parent = getpid();
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t child = fork();
  if (child < 0) return os_error("cannot make a process for the agent", errno);
  if (child == 0) {
    become_agent(parent);
    return guardian_is_gone() ? 128 + SIGKILL : agent();
  }
  return end_for(wait_for_agent(child));
}

bool guardian_is_gone() {
  return getppid() != guardian;
}

}  // namespace ddprun::launcher
