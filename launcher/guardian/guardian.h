// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

#include "base/boot_clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "launcher/guardian/final_message.h"

namespace ddprun::launcher {

/// Signals to this process from a process on another host, over a descriptor. A byte is the number
/// of a signal, or 0, a sign of life. If the descriptor ends or is silent for kSilence, the process
/// that started this one is gone: that counts as SIGTERM. After as long again it counts as a second
/// SIGTERM, which ends waits such as that for a reader of the output.
class ControlInput {
 public:
  /// Several times the interval between two signs of life.
  static constexpr std::chrono::seconds kSilence{60};

  /// If `input` is empty, no such signals come.
  explicit ControlInput(Fd input, std::chrono::milliseconds silence = kSilence)
      : input_(std::move(input)), silence_(silence) {}

  /// The descriptor for poll(2), and its timeout in milliseconds.
  int fd() const { return input_.get(); }
  int timeout() const;

  /// Returns the signals to forward. Call after each poll; `readable` is poll(2)'s result.
  std::vector<int> read(bool readable);

 private:
  using Clock = std::chrono::steady_clock;

  std::vector<int> hurry();

  Fd input_;
  std::chrono::milliseconds silence_;
  Clock::time_point last_heard_ = Clock::now();
  std::optional<Clock::time_point> hurry_at_;
};

/// Forks and runs `agent` in the child. Returns the exit code for the process, in both processes.
///
/// The parent is the guardian, the process that the user sees. It forwards signals to the agent,
/// waits for it, and returns its exit code. After a Ctrl-C on a terminal it dies by SIGINT, so that
/// a shell ends its loop, too. Both are child subreapers. If the agent dies, its descendants become
/// the guardian's, which kills and reaps them. If the guardian dies first, the kernel sends SIGCONT
/// to the agent, which also continues a stopped agent, and `guardian_is_gone` is true.
///
/// Signals from `control` (see ControlInput) are forwarded like others.
///
/// Ctrl-Z (SIGTSTP) stops the agent and its descendants, then the guardian. When the guardian is
/// continued, the agent gets SIGCONT and has to continue its descendants.
///
/// When the agent has ended and none of its descendants runs any more, the guardian sends the final
/// message that the agent has set. `final_message` composes it.
///
/// The agent has a process group of its own, so that a terminal's Ctrl-C reaches it once, through
/// the guardian. Call block_signals before. Errors: system (fork, or a preparation of it, failed).
Result<int> guard(const std::function<int()>& agent, const FinalMessage::Compose& final_message,
                  Fd control = Fd());

/// In the agent: the guardian kills the agent and its descendants at `until` + `grace`, unless this
/// is called again before. This is for an agent that hangs or was stopped, and cannot kill its
/// workers itself. The grace begins when the guardian sees that `until` has passed: after the whole
/// host was suspended, the agent has that long to call this.
void arm_liveness_timer(BootClock::time_point until, std::chrono::milliseconds grace);

/// In the agent: when the guardian kills the agent, it kills these children of the agent first,
/// with their process groups. Then it looks for all other descendants, which takes longer the more
/// processes the host has. Children after the first 1024 are only found by that look.
void set_first_to_kill(const std::vector<pid_t>& workers);

/// In the agent: stops the timer.
void disarm_liveness_timer();

/// In the agent: whether the guardian has died.
bool guardian_is_gone();

/// In the agent: the guardian removes this directory with its contents when the agent has ended.
/// The path is absolute; PATH_MAX or more bytes are ignored. Empty: no directory.
void set_cleanup_dir(const std::string& path);

/// In the agent: the guardian sends its final message over `route`, about `subject`; none if that
/// is longer than 512 bytes. No core dump contains the subject.
void set_final_message(const FinalMessage::Route& route, std::string_view subject);

/// In the agent: the guardian sends no final message.
void clear_final_message();

/// In the agent: sets the format of log lines of both processes.
void set_log_style(const log::Style& style);

/// In the agent: SIGQUIT does not stop the job. The guardian passes it on, and an agent that does
/// not read it does not count as hanging.
void keep_quit_from_stopping();

/// Removes a directory with its contents; ignores errors.
void remove_directory(const std::string& path);

}  // namespace ddprun::launcher
