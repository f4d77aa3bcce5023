// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/boot_clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/guardian/final_message.h"

namespace ddprun::launcher {

/// Forks and runs `agent` in the child. Returns the exit code for the process, in both processes.
///
/// The parent, the guardian, is the process the user sees: it forwards signals to the agent, waits
/// for it, and returns its exit code, or dies by SIGINT after a Ctrl-C on a terminal: then a shell
/// ends its loop, too. Both are child subreapers. If the agent dies, its descendants become the
/// guardian's, which kills and reaps them. If the guardian dies first, the kernel sends SIGCONT to
/// the agent, which also continues one that was stopped, and `guardian_is_gone` is true.
///
/// Signals that come from `control` (see ControlInput) are forwarded like others.
///
/// Ctrl-Z (SIGTSTP) stops the agent and its descendants, then the guardian. When that is continued,
/// the agent gets SIGCONT and has to continue its descendants.
///
/// When the agent has ended and nothing of it runs any more, the guardian sends the final message
/// that the agent has set: `final_message` writes it.
///
/// The agent has a process group of its own, so that a terminal's Ctrl-C reaches it once, through
/// the guardian. Call block_signals before. Errors: system (fork or what it needs failed).
Result<int> guard(const std::function<int()>& agent, const FinalMessage::Compose& final_message,
                  Fd control = Fd());

/// In the agent: the guardian kills the agent and its descendants at `until` + `grace`, unless this
/// is called again before. For an agent that hangs or was stopped, and cannot kill its workers
/// itself. The guardian measures the grace from when it sees that `until` has passed: after the
/// whole host was suspended, the agent has that long to call this.
void arm_liveness_timer(BootClock::time_point until, std::chrono::milliseconds grace);

/// In the agent: these children of it, each with a process group of its own, are killed first then:
/// before the guardian looks for all that they started, which takes longer the more processes the
/// host has. Those after the first 1024 are only found by that look.
void set_first_to_kill(const std::vector<pid_t>& workers);

/// In the agent: stops the timer.
void disarm_liveness_timer();

/// In the agent: whether the guardian has died.
bool guardian_is_gone();

/// In the agent: the guardian removes this directory with its contents when the agent has ended. An
/// absolute path, shorter than PATH_MAX, or it is ignored; empty: none.
void set_cleanup_dir(const std::string& path);

/// In the agent: the guardian sends its final message over `route`, about `subject`. Does nothing
/// where it is longer than 512 bytes. No core dump has the subject.
void set_final_message(const FinalMessage::Route& route, std::string_view subject);

/// In the agent: the guardian sends no final message.
void clear_final_message();

/// In the agent: the format of log lines of both processes from now on.
void set_log_style(const log::Style& style);

/// In the agent: SIGQUIT does not stop the job. The guardian passes it on, and an agent that does
/// not read it does not count as hanging.
void keep_quit_from_stopping();

/// Removes a directory with its contents; ignores errors.
void remove_directory(const std::string& path);

}  // namespace ddprun::launcher
