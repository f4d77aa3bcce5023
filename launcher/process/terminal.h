// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <termios.h>

#include "base/error.h"
#include "base/fd.h"

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

/// The window of a terminal, in characters.
struct WindowSize {
  unsigned short rows = 24;
  unsigned short columns = 80;
};

/// The window of the terminal at `fd`; the default if it does not know its size. nullopt: `fd` is
/// no terminal.
std::optional<WindowSize> window_size(int fd);

/// Sets the size that programs see when they ask the pseudo-terminal, from either end.
void set_window_size(int terminal, WindowSize size);

/// Both ends of a pseudo-terminal; both are close-on-exec.
struct PseudoTerminal {
  Fd master;  ///< reads what is written to `slave`; EIO if no process has `slave` open any more
  Fd slave;   ///< a terminal for programs
};

/// Opens a pseudo-terminal that is nobody's controlling terminal. Bytes pass from `slave` to
/// `master` unchanged: no carriage return is put before a newline. Errors: system (such as ENOSPC:
/// there are already kernel.pty.max).
Result<PseudoTerminal> open_pseudo_terminal(WindowSize size);

}  // namespace ddprun::launcher
