// SPDX-License-Identifier: Apache-2.0
#include "cli/ask/watch_keys.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

namespace ddprun::cli {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP};

launcher::TerminalSettings* settings = nullptr;  // for the signals' handlers

/// Whether this process reads the keys: if stdout is a pipe, a pager behind it does.
bool has_terminal() {
  return tcgetpgrp(STDIN_FILENO) == getpgrp() && isatty(STDOUT_FILENO) == 1;
}

void give_terminal_back(int signal);

void handle_signals() {
  for (const int signal : kEndingSignals) {
    if (std::signal(signal, give_terminal_back) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

/// Restores the terminal; the signal has its usual effect when this returns.
void give_terminal_back(int signal) {
  settings->suspend();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void take_terminal_again(int /*signal*/) {
  settings->resume();
  handle_signals();
}

}  // namespace

WatchKeys::WatchKeys() {
  sigset_t size_changes;
  sigemptyset(&size_changes);
  sigaddset(&size_changes, SIGWINCH);
  pthread_sigmask(SIG_BLOCK, &size_changes, nullptr);
  resized_.reset(signalfd(-1, &size_changes, SFD_CLOEXEC | SFD_NONBLOCK));
  termios keys{};
  if (!has_terminal() || tcgetattr(STDIN_FILENO, &keys) != 0) return;
  settings = &users_;
  handle_signals();
  std::signal(SIGCONT, take_terminal_again);
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &keys);
}

WatchKeys::~WatchKeys() {
  if (settings == nullptr) return;
  for (const int signal : kEndingSignals) std::signal(signal, SIG_DFL);
  std::signal(SIGCONT, SIG_DFL);
  settings = nullptr;
  users_.restore();
}

WatchKeys::Event WatchKeys::wait_until(std::chrono::steady_clock::time_point end) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return Event::none;
    // The kernel stops a process that reads a terminal of another process.
    const bool reads = settings != nullptr && has_terminal();
    std::array<pollfd, 2> ready = {{{resized_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
    if (poll(ready.data(), reads ? 2 : 1, static_cast<int>(left.count())) <= 0) continue;
    signalfd_siginfo change{};
    if (read(resized_.get(), &change, sizeof change) == sizeof change) return Event::resized;
    char key = 0;
    const bool is_closed = ready[1].revents != 0 && read(STDIN_FILENO, &key, 1) <= 0;
    if (is_closed || key == 'q' || key == 'Q') return Event::quit;
  }
}

}  // namespace ddprun::cli
