// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/terminal.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace ddprun::launcher {
namespace {

/// nullopt: the terminal is not ours. If stdout is a pipe, a pager behind it may have set it.
std::optional<termios> settings() {
  termios settings{};
  const bool is_ours = tcgetpgrp(STDIN_FILENO) == getpgrp() && isatty(STDOUT_FILENO) == 1;
  if (!is_ours || tcgetattr(STDIN_FILENO, &settings) != 0) return std::nullopt;
  return settings;
}

/// Does not wait for output, which Ctrl-S may have stopped.
void set(const std::optional<termios>& wanted) {
  if (wanted && settings()) tcsetattr(STDIN_FILENO, TCSANOW, &*wanted);
}

/// Turns off the kernel's default for new terminals, which translates newlines.
void pass_bytes_unchanged(int terminal) {
  termios modes{};
  if (tcgetattr(terminal, &modes) != 0) return;
  modes.c_oflag &= ~static_cast<tcflag_t>(ONLCR);
  tcsetattr(terminal, TCSANOW, &modes);
}

}  // namespace

bool is_terminal_of_others(int fd) {
  const pid_t foreground = tcgetpgrp(fd);  // -1: not a terminal, or one of another session
  return foreground > 0 && foreground != getpgid(getppid());
}

TerminalSettings::TerminalSettings() : users_(settings()) {}

void TerminalSettings::restore() {
  set(users_);
}

void TerminalSettings::suspend() {
  workers_ = settings();
  restore();
}

void TerminalSettings::resume() {
  if (const std::optional<termios> now = settings()) users_ = now;
  set(workers_);
}

std::optional<WindowSize> window_size(int fd) {
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return std::nullopt;
  if (size.ws_row == 0 || size.ws_col == 0) return WindowSize();
  return WindowSize{size.ws_row, size.ws_col};
}

void set_window_size(int terminal, WindowSize size) {
  const winsize window = {size.rows, size.columns, 0, 0};
  ioctl(terminal, TIOCSWINSZ, &window);
}

Result<PseudoTerminal> open_pseudo_terminal(WindowSize size) {
  PseudoTerminal terminal;
  terminal.master.reset(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  const int unlock = 0;
  if (!terminal.master || ioctl(terminal.master.get(), TIOCSPTLCK, &unlock) != 0) {
    return os_error("cannot create a pseudo-terminal", errno);
  }
  // Uses the master, because /dev/pts may be missing, or another one.
  terminal.slave.reset(ioctl(terminal.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!terminal.slave) return os_error("cannot open a pseudo-terminal", errno);
  pass_bytes_unchanged(terminal.slave.get());
  set_window_size(terminal.slave.get(), size);
  return terminal;
}

}  // namespace ddprun::launcher
