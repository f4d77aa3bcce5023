// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "cli/completion_scripts.h"

namespace ddprun::cli {
namespace {

// An option with "!" is accepted and not shown. #compdef: the file may also be in a folder of
// $fpath.
constexpr std::string_view kZshFunctions = R"script(
_ddprun_both_spellings() {  # sets specs: those with underscores or, where one is being typed, with dashes are shown
  local spec name dashed
  local -a own
  own=("${specs[@]}") specs=()
  for spec in "${own[@]}"; do
    name=${spec%%[=\[]*}
    dashed=--${${name#--}//_/-}
    if [[ $name != --*_* ]]; then
      specs+=("$spec")
    elif [[ $PREFIX == --*-* ]]; then
      specs+=("!$spec" "$dashed${spec#$name}")
    else
      specs+=("$spec" "!$dashed${spec#$name}")
    fi
  done
}

_ddprun_program() {
  _alternative 'programs:program:_command_names -e' 'files:file:_files'
}

_ddprun_program_or_command() {
  (( CURRENT == 2 )) && _describe -t commands command _ddprun_commands
  _ddprun_program
}

_ddprun() {
  local curcontext=$curcontext command=
  local -a specs rest ends names
  local -i has_kind
  local -A opt_args
  names=(${_ddprun_commands%%:*})
  if (( CURRENT > 2 && ${names[(Ie)$words[2]]} )); then
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  _ddprun_specs "$command"
  if (( has_kind )); then
    shift words
    (( CURRENT-- ))
  fi
  _ddprun_both_spellings
  _arguments -s -S "${ends[@]}" : "${specs[@]}" "${rest[@]}"
}

if [[ $funcstack[1] == _ddprun ]]; then
  _ddprun "$@"
else
  compdef _ddprun ddprun
fi
)script";

using Value = CompletedOption::Value;
using Rest = CompletedCommand::Rest;

/// For the text in brackets of _arguments, and for the right side of a colon.
std::string zsh_text(std::string_view text) {
  std::string plain;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') plain += '\\';
    plain += c;
  }
  return plain;
}

std::string zsh_value(const CompletedOption& option) {
  switch (option.value) {
    case Value::none:
      return "";
    case Value::words:
      return ":value:(" + joined(option.words) + ")";
    case Value::file:
      return ":file:_files";
    case Value::directory:
      return ":directory:_files -/";
    case Value::other:
      return ":value:";
  }
  return "";
}

void append_zsh_specs(std::string& script, const CompletedOption& option) {
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    const std::string sign = option.value == Value::none ? "" : is_long ? "=" : "+";
    const std::string spec = name + sign + "[" + zsh_text(option.help) + "]" + zsh_value(option);
    script.append("        ").append(single_quoted(spec)).append("\n");
  }
}

/// For _arguments.
std::string zsh_first_word(const CompletedCommand& command) {
  return "'1:word:(" + joined(command.words) + ")'";
}

/// The words that follow the options, as _arguments has them.
std::string zsh_rest(const CompletedCommand& command) {
  switch (command.rest) {
    case Rest::program:
      if (command.name.empty()) return "'(-)1: :_ddprun_program_or_command' '*::arguments:_normal'";
      return "'(-)1: :_ddprun_program' '*::arguments:_normal'";
    case Rest::file:
      return "'1:file:_files'";
    case Rest::words:
      return zsh_first_word(command);
    case Rest::nothing:
      return "'*:word:{compadd}'";  // no matches
  }
  return "";
}

/// Where a word such as "job" stands between the command and its options: it alone, or it is passed
/// over.
void append_zsh_kind(std::string& script, const CompletedCommand& command) {
  if (command.name.empty() || command.rest != Rest::program || command.words.empty()) return;
  script.append("      (( CURRENT == 2 )) && specs=() rest=(").append(zsh_first_word(command));
  script.append(") && return\n      has_kind=1\n");
}

}  // namespace

std::string zsh_completion(const std::vector<CompletedCommand>& commands) {
  std::string script =
      "#compdef ddprun\n"
      "# Completion of ddprun for zsh, by ddprun --print_completion zsh\n\n"
      "typeset -ga _ddprun_commands=(\n";
  for (const CompletedCommand& command : commands) {
    if (command.name.empty()) continue;
    script.append("  ").append(single_quoted(command.name + ":" + command.summary)).append("\n");
  }
  script +=
      ")\n\n_ddprun_specs() {  # COMMAND: sets specs; rest, which follows the options; ends, if "
      "that has options of its own\n"
      "  case $1 in\n";
  for (const CompletedCommand& command : commands) {
    script.append("    ").append(single_quoted(command.name)).append(")\n");
    append_zsh_kind(script, command);
    if (command.rest == Rest::program) script += "      ends=(-A '-*')\n";
    script.append("      rest=(");
    script.append(zsh_rest(command)).append(")\n      specs=(\n");
    for (const CompletedOption& option : command.options) append_zsh_specs(script, option);
    script += "      ) ;;\n";
  }
  return script.append("  esac\n}\n").append(kZshFunctions);
}

}  // namespace ddprun::cli
