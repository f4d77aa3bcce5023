// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "cli/completion_scripts.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kFishFunctions = R"script(
# Whether an option, its value, or the first other word of this command is next; "run" is ddprun without a
# command.
function __ddprun_at --argument-names wanted
    set -l words (commandline -opc)
    set -e words[1]
    set -l command run
    if set -q words[1]; and contains -- $words[1] $__ddprun_commands
        set command $words[1]
        set -e words[1]
    end
    test $command = $wanted; or return 1
    set -l has_value 0
    set -l is_first 1
    for word in $words
        if test $has_value = 1
            set has_value 0
        else if test "$word" = --
            return 1
        else if string match -q -- '-*=*' $word
            continue
        else if string match -q -- '-?*' $word
            contains -- (string replace -a -- - _ $word) $__ddprun_valued; and set has_value 1
        else if contains -- $command $__ddprun_with_program; and not test $command = manifest -a $is_first = 1
            return 1
        end
        set is_first 0
    end
    return 0
end

# Whether nothing but the name of this command stands before the word that is typed.
function __ddprun_begins --argument-names wanted count
    __ddprun_at $wanted; and test (count (commandline -opc)) = $count
end

# Whether the option that is typed has dashes between its words.
function __ddprun_dashes
    string match -qr -- '^--.*-' (commandline -ct)
end
)script";

using Value = CompletedOption::Value;
using Rest = CompletedCommand::Rest;

std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted += '\'';
}

std::string fish_value(const CompletedOption& option) {
  switch (option.value) {
    case Value::none:
      return "";
    case Value::words:
      return " -x -a " + fish_quoted(joined(option.words));
    case Value::file:
      return " -r -F";
    case Value::directory:
      return " -x -a '(__fish_complete_directories (commandline -ct))'";
    case Value::other:
      return " -x";
  }
  return "";
}

/// A line of the script; `condition` is a command of fish.
std::string fish_line(const std::string& condition, const std::string& what) {
  return "complete -c ddprun -n " + fish_quoted(condition) + what + "\n";
}

/// Each name in its two spellings.
void append_fish_option(std::string& script, const std::string& at, const CompletedOption& option) {
  const std::string end = fish_value(option) + " -d " + fish_quoted(option.help);
  for (const std::string& name : option.names) {
    if (!name.starts_with("--")) {
      script += fish_line(at, " -s " + name.substr(1) + end);
      continue;
    }
    std::string dashed = name.substr(2);
    std::replace(dashed.begin(), dashed.end(), '_', '-');
    const bool is_other = dashed != name.substr(2);
    script +=
        fish_line(is_other ? at + "; and not __ddprun_dashes" : at, " -l " + name.substr(2) + end);
    if (is_other) script += fish_line(at + "; and __ddprun_dashes", " -l " + dashed + end);
  }
}

void append_fish_rest(std::string& script, const std::string& at, const CompletedCommand& command) {
  if (command.rest == Rest::program) {
    script += fish_line(at, " -a '(__fish_complete_command)'");
  } else if (command.rest != Rest::file) {
    script += fish_line(at, " -f");
  }
}

/// How the script calls ddprun itself, or one of its commands.
std::string fish_name(const CompletedCommand& command) {
  return command.name.empty() ? "run" : command.name;
}

void append_fish_command(std::string& script, const CompletedCommand& command) {
  const std::string name = fish_name(command);
  const std::string at = "__ddprun_at " + name;
  if (!command.name.empty()) {
    const std::string summary = " -d " + fish_quoted(command.summary);
    script += fish_line("__ddprun_begins run 1", " -a " + name + summary);
    if (!command.words.empty()) {
      const std::string words = fish_quoted(joined(command.words));
      script += fish_line("__ddprun_begins " + name + " 2", " -a " + words);
    }
  }
  append_fish_rest(script, at, command);
  for (const CompletedOption& option : command.options) append_fish_option(script, at, option);
}

/// The names of all options with a value, each once, with "_" for "-" throughout.
std::vector<std::string> names_with_value(const std::vector<CompletedCommand>& commands) {
  std::set<std::string> names;
  for (const CompletedCommand& command : commands) {
    for (const CompletedOption& option : command.options) {
      if (option.value == Value::none) continue;
      for (std::string name : option.names) {
        std::replace(name.begin(), name.end(), '-', '_');
        names.insert(std::move(name));
      }
    }
  }
  return {names.begin(), names.end()};
}

std::string fish_list(std::string_view variable, const std::vector<std::string>& names) {
  return "set -g " + std::string(variable) + " " + joined(names) + "\n";
}

}  // namespace

std::string fish_completion(const std::vector<CompletedCommand>& commands) {
  std::vector<std::string> names, with_program;
  std::string lines;
  for (const CompletedCommand& command : commands) {
    if (!command.name.empty()) names.push_back(command.name);
    if (command.rest == Rest::program) with_program.push_back(fish_name(command));
    append_fish_command(lines, command);
  }
  return "# Completion of ddprun for fish, by ddprun --print_completion fish\n\n" +
         fish_list("__ddprun_commands", names) + fish_list("__ddprun_with_program", with_program) +
         fish_list("__ddprun_valued", names_with_value(commands)) + std::string(kFishFunctions) +
         "\n" + lines;
}

}  // namespace ddprun::cli
