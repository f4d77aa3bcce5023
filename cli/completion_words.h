// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
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

}  // namespace ddprun::cli
