// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/terminal.h"

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

}  // namespace ddprun::launcher
