// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "launcher/process/terminal.h"

namespace ddprun::cli {

/// The user of `ddprun watch`: keys and the terminal's size. If stdin and stdout are the terminal
/// and this process has it, each key comes at once, without echo. Restores the user's settings of
/// the terminal when this object or the process ends, or Ctrl-Z stops it.
///
/// Make only one at a time. Thread: the main one.
class WatchKeys {
 public:
  enum class Event { none, resized, quit };

  WatchKeys();
  ~WatchKeys();
  WatchKeys(const WatchKeys&) = delete;

  /// Waits for q or another size of the terminal, until `end`.
  Event wait_until(std::chrono::steady_clock::time_point end);

 private:
  launcher::TerminalSettings users_;
  Fd resized_;
};

/// Whether a command line, without argv[0], asks about running jobs: its first word is `ls`,
/// `status` ... A user runs a program of such a name as ./ls, or after "--".
bool is_verb(std::span<const std::string> words);

/// Runs the command and returns the exit code: 0; 2 for a wrong use; 1 if there is no such job or
/// it does not answer. Blocks; call it before signals are blocked.
int run_verb(std::span<const std::string> words);

}  // namespace ddprun::cli
