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

/// Of the terminal at `fd`; of one that does not know its size, the default. nullopt: `fd` is no
/// terminal.
std::optional<WindowSize> window_size(int fd);

/// Programs that ask the pseudo-terminal, from either end, see this size from now on.
void set_window_size(int terminal, WindowSize size);

/// Both ends of a pseudo-terminal; both are close-on-exec.
struct PseudoTerminal {
  Fd master;  ///< reads what is written to `slave`; EIO when no process has that open any more
  Fd slave;   ///< a terminal for programs
};

/// A new one, which is nobody's controlling terminal. Bytes pass from `slave` to `master`
/// unchanged: no carriage return is put before a newline. Errors: system (such as ENOSPC: there are
/// kernel.pty.max already).
Result<PseudoTerminal> open_pseudo_terminal(WindowSize size);

}  // namespace ddprun::launcher
