// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <termios.h>

namespace ddprun::launcher {

/// In the agent: whether `fd` is the terminal of the guardian's session while another process group
/// is in its foreground, as with `ddprun ... &`. Keys that are typed there are for that group. The
/// kernel does not hold back workers that read it, because they have sessions of their own.
bool is_terminal_of_others(int fd);

/// In the guardian: the settings of the terminal at stdin, which workers may change: one that is
/// killed while it reads a password leaves a terminal without echo. Does nothing where stdin or
/// stdout is no terminal, or while this process group is not in its foreground.
class TerminalSettings {
 public:
  /// The settings from now on are the user's.
  TerminalSettings();

  /// Gives the terminal back: with the user's settings.
  void restore();

  /// When the job is stopped: keeps the workers' settings, and restores the user's.
  void suspend();

  /// When it goes on: the other way round.
  void resume();

 private:
  std::optional<termios> users_;
  std::optional<termios> workers_;  // while the job is stopped
};

}  // namespace ddprun::launcher
