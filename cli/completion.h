// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/completion_words.h"

// Completion of ddprun's command lines in a shell, whose script asks `ddprun __complete LINE`.
// Pure.

namespace ddprun::cli {

/// The command that a script asks.
constexpr std::string_view kComplete = "__complete";

/// A script for `shell`, which is bash, zsh or fish: to be sourced, or to be put where the shell
/// looks for those of commands.
std::string completion_script(std::string_view shell);

/// The words that may stand for the last word of a command line, and what the shell adds to them.
struct Completion {
  /// The shell adds files, directories, programs with files, or what the program's own completion
  /// has for its arguments.
  enum class Shell { nothing, file, directory, program, argument };

  Shell shell = Shell::nothing;
  std::string before = {};  ///< "--events=", where the file follows in the same word
  size_t program = 0;       ///< for an argument: the words before the program, "ddprun" among them
  std::vector<CompletedWord> words = {};  ///< each whole, "--gpu_bind=all"
};

/// `words` follow "ddprun"; the last one, which may be empty, is to be completed.
Completion complete(const std::vector<std::string>& words);

/// The words of a shell's command line, without quotes. After a blank an empty one is the last.
std::vector<std::string> words_of(std::string_view line);

/// The answer to a script that has this line up to the cursor, "ddprun --gpu_b". Its lines: what
/// the shell adds, "file" or "argument 3"; what is before the value, "--events="; the last word as
/// it is typed; then one for each word, with its help behind a tab.
std::string completion_answer(std::string_view line);

}  // namespace ddprun::cli
