// SPDX-License-Identifier: Apache-2.0
#include "cli/completion_words.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "cli/line/flags.h"
#include "cli/line/verb_line.h"
#include "cli/manifest/manifest_options.h"
#include "cli/manifest_line.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

using Value = CompletedOption::Value;
using Rest = CompletedCommand::Rest;

bool is_word_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/// The literal alternatives of a value: "auto" and "gpu" of "N|auto|gpu".
std::vector<std::string> literal_values(std::string_view value) {
  std::vector<std::string> words;
  for (size_t at = 0; at < value.size();) {
    const size_t end = std::min(value.find('|', at), value.size());
    const std::string_view word = value.substr(at, end - at);
    if (std::ranges::all_of(word, is_word_letter)) words.emplace_back(word);
    at = end + 1;
  }
  return words;
}

CompletedOption option_of(std::vector<std::string> names, std::string_view value,
                          std::string_view help) {
  CompletedOption option{std::move(names), Value::other, literal_values(value),
                         first_sentence(help)};
  if (value.empty()) option.value = Value::none;
  if (value == "FILE") option.value = Value::file;
  if (value == "DIR") option.value = Value::directory;
  if (!option.words.empty()) option.value = Value::words;
  return option;
}

CompletedOption option_of(const Flag& flag) {
  std::vector<std::string> names = {spelled(flag)};
  if (!flag.alias.empty()) names.push_back("--" + std::string(flag.alias));
  if (flag.letter != '\0') names.push_back(std::string("-") + flag.letter);
  // A value that may be left out is in the same word.
  return option_of(std::move(names), flag.may_be_alone() ? "" : flag.value, flag.help);
}

std::vector<CompletedOption> options_in(Mode mode) {
  std::vector<CompletedOption> options;
  for (const Flag& flag : flags()) {
    if (flag.in(mode)) options.push_back(option_of(flag));
  }
  return options;
}

CompletedOption help_option() {
  return option_of({"--" + std::string(kHelp)}, "", "Print this help.");
}

/// The words of "--json --all ".
std::vector<CompletedOption> options_of(const VerbText& verb) {
  std::vector<CompletedOption> options;
  for (size_t at = 0; at < verb.options.size();) {
    const size_t end = std::min(verb.options.find(' ', at), verb.options.size());
    options.push_back(option_of({std::string(verb.options.substr(at, end - at))}, "", ""));
    at = end + 1;
  }
  options.push_back(help_option());
  return options;
}

void complete_manifest(CompletedCommand& command) {
  command.rest = Rest::program;
  for (const KindName& kind : kManifestKinds) command.words.push_back({std::string(kind.name)});
  for (const ManifestOption& option : kManifestOptions) {
    command.options.push_back(option_of({std::string(option.name)}, option.value, option.help));
  }
  for (const Flag& flag : flags()) {
    if (is_for_pods(flag)) command.options.push_back(option_of(flag));
  }
  command.options.push_back(help_option());
}

void append_commands(std::vector<CompletedWord>& words) {
  for (const CommandName& name : command_names()) {
    words.push_back({std::string(name.name), std::string(name.summary)});
  }
}

void complete_help(CompletedCommand& command) {
  command.rest = Rest::words;
  append_commands(command.words);
  for (const Section& section : page_of("").sections) {
    if (!section.topic.empty()) command.words.push_back({std::string(section.topic)});
  }
  for (const Flag& flag : flags()) command.words.push_back({std::string(flag.name)});
}

CompletedCommand completed(const CommandName& name) {
  CompletedCommand command{.name = std::string(name.name)};
  if (const VerbText* verb = find_verb_text(name.name)) {
    command.options = options_of(*verb);
  } else if (name.name == "serve") {
    command.options = options_in(Mode::serve);
  } else if (name.name == "doctor") {
    command.options = options_in(Mode::doctor);
    command.rest = Rest::program;
  } else if (name.name == "launch") {
    command.options = options_in(Mode::run);
    command.rest = Rest::program;
  } else if (name.name == "secret") {
    command.options = {help_option()};
    command.rest = Rest::file;
  } else if (name.name == "manifest") {
    complete_manifest(command);
  } else {
    complete_help(command);
  }
  return command;
}

}  // namespace

std::vector<CompletedCommand> completed_commands() {
  CompletedCommand own{.options = options_in(Mode::run), .rest = Rest::program};
  append_commands(own.words);
  std::vector<CompletedCommand> commands = {std::move(own)};
  for (const CommandName& name : command_names()) commands.push_back(completed(name));
  return commands;
}

std::string first_sentence(std::string_view help) {
  size_t end = help.find(". ");
  if (end == std::string_view::npos) end = help.ends_with('.') ? help.size() - 1 : help.size();
  return std::string(help.substr(0, end));
}

}  // namespace ddprun::cli
