// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/error.h"
#include "base/fd.h"

namespace ddprun::launcher {

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
