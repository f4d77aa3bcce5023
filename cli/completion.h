// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

// The words to complete. Pure.

namespace ddprun::cli {

/// A word and its purpose, which may be empty.
struct CompletedWord {
  std::string text;
  std::string help = {};
};

/// An option of ddprun or of one of its commands.
struct CompletedOption {
  enum class Value { none, words, file, directory, other };

  std::vector<std::string> names;  ///< "--redirects", "-r"; with underscores
  Value value = Value::none;
  std::vector<std::string> words = {};  ///< its values, for Value::words
  std::string help;                     ///< the first sentence of it
  bool may_be_alone = false;            ///< only one of `words` is its value
};

/// ddprun itself, or one of its commands.
struct CompletedCommand {
  enum class Rest { program, file, words, nothing };

  std::string name = {};  ///< empty: ddprun without a command
  std::vector<CompletedOption> options = {};
  Rest rest = Rest::nothing;              ///< what follows the options
  std::vector<CompletedWord> words = {};  ///< words after the command's name: for Rest::words,
                                          ///< or instead of a program
};

/// All commands; ddprun itself is the first.
std::vector<CompletedCommand> completed_commands();

/// The part of a flag's help that fits in a menu: its first sentence, without the full stop.
std::string first_sentence(std::string_view help);

// Completion of ddprun's command lines in a shell: its script asks `ddprun __complete LINE`. Pure.

/// The command that a script asks.
constexpr std::string_view kComplete = "__complete";

/// A script for `shell`: bash, zsh or fish. The user sources it, or puts it where the shell looks
/// for completions of commands.
std::string completion_script(std::string_view shell);

/// The candidates for the last word of a command line, and what the shell adds to them.
struct Completion {
  /// The shell adds files, directories, programs and files, or the words of the program's own
  /// completion for its arguments.
  enum class Shell { nothing, file, directory, program, argument };

  Shell shell = Shell::nothing;
  std::string before = {};  ///< "--events=", if the file follows in the same word
  size_t program = 0;       ///< for an argument: the number of words before the program
  std::vector<CompletedWord> words = {};  ///< each whole, "--gpu_bind=all"
};

/// Completes the last one of `words`, which may be empty; they follow "ddprun".
Completion complete(const std::vector<std::string>& words);

/// The words of a shell's command line, without quotes. After a blank, the last word is empty.
std::vector<std::string> words_of(std::string_view line);

/// The answer to a script that has this line up to the cursor, "ddprun --gpu_b". Its lines: what
/// the shell adds, "file" or "argument 3"; the text before the value, "--events="; the last word as
/// typed; then each candidate, with its help after a tab.
std::string completion_answer(std::string_view line);

}  // namespace ddprun::cli
