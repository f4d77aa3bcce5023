// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <termios.h>

namespace ddprun::launcher {

/// In the agent: whether `fd` is the terminal of the guardian's session while another process group
/// is in its foreground, as with `ddprun ... &`. Keys typed there are for that group. The kernel
/// does not stop workers from reading it, because they have sessions of their own.
bool is_terminal_of_others(int fd);

/// In the guardian: the settings of the terminal at stdin. Workers may change these: one that is
/// killed while it reads a password leaves a terminal without echo. Does nothing if stdin or stdout
/// is no terminal, or while this process group is not in its foreground.
class TerminalSettings {
 public:
  /// Takes the present settings for the user's.
  TerminalSettings();

  /// Restores the user's settings.
  void restore();

  /// Call when the job is stopped: keeps the workers' settings, and restores the user's.
  void suspend();

  /// Call when the job continues: keeps the user's settings, and restores the workers'.
  void resume();

 private:
  std::optional<termios> users_;
  std::optional<termios> workers_;  // while the job is stopped
};

}  // namespace ddprun::launcher
