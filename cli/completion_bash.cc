// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <string_view>

#include "cli/completion_scripts.h"

namespace ddprun::cli {
namespace {

// bash takes words apart at "=" and ":" (COMP_WORDBREAKS), and replaces only the last part of one.
constexpr std::string_view kBashFunctions = R"script(
_ddprun_split() {  # sets words, those on the line up to the cursor
  local line=$COMP_LINE piece
  for piece in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if [[ ${#words[@]} -gt 0 && $line != [[:space:]]* ]]; then
      words[${#words[@]}-1]+=$piece
    else
      words+=("$piece")
    fi
    line=${line#"${line%%[![:space:]]*}"}
    line=${line#"$piece"}
  done
  last=$((${#words[@]} - 1))
  current=${words[last]}
  [[ $piece =~ ^[:=]+$ ]] && piece=''
  lead=${current%"$piece"}
}

_ddprun_scan() {  # sets command; option, what the value that is next has to be; program, where it begins
  local at=1 word name
  if ((last > 1)) && [[ " $(_ddprun_first '') " == *" ${words[1]} "* ]]; then
    command=${words[1]} at=2
  fi
  begin=$at
  for (( ; at < last; at++)); do
    word=${words[at]}
    if [[ $option ]]; then
      option=''
    elif [[ $word == -- ]]; then
      program=$((at + 1)) && return
    elif [[ $word == -*=* ]]; then
      continue
    elif [[ $word == --* ]]; then
      name=${word#--} && option=$(_ddprun_value "--${name//-/_}")
    elif [[ $word == -?* ]]; then
      option=$(_ddprun_value "$word")
    elif [[ $command != manifest || $at -gt $begin ]]; then
      program=$at && return
    fi
  done
}

_ddprun_reply() {  # takes whole words; $lead, their begin, stays on the command line
  local word
  while IFS= read -r word; do COMPREPLY+=("${word#"$lead"}"); done
}

_ddprun_reply_value() {  # FLAG=, where the value is in the same word
  local typed=${current#"$1"}
  case $option in
    OTHER) ;;
    FILE) compopt -o filenames && _ddprun_reply < <(compgen -P "$1" -f -- "$typed") ;;
    DIR) compopt -o filenames && _ddprun_reply < <(compgen -P "$1" -d -- "$typed") ;;
    *) _ddprun_reply < <(compgen -P "$1" -W "$option" -- "$typed") ;;
  esac
}

_ddprun_reply_program() {
  compopt -o filenames
  [[ ! $current ]] || _ddprun_reply < <(compgen -c -- "$current")
  option=FILE && _ddprun_reply_value ''
}

_ddprun() {
  local words=() last current lead command='' option='' program='' begin name options rest
  COMPREPLY=()
  _ddprun_split
  _ddprun_scan
  rest=$(_ddprun_rest "$command")
  if [[ $program && $rest == program ]]; then
    if ((program == last)); then
      _ddprun_reply_program
    else
      option=FILE && _ddprun_reply_value ''
    fi
    return
  fi
  if [[ $option ]]; then
    _ddprun_reply_value '' && return
  fi
  if [[ $current == --*=* ]]; then
    name=${current%%=*} && name=${name#--}
    option=$(_ddprun_value "--${name//-/_}")
    [[ ! $option ]] || _ddprun_reply_value "${current%%=*}="
    return
  fi
  if [[ $current == -* ]]; then
    options=$(_ddprun_options "$command")
    [[ $current != --*-* || $current == *_* ]] || options=${options//_/-}
    _ddprun_reply < <(compgen -W "$options" -- "$current")
    return
  fi
  if ((last == begin)); then
    _ddprun_reply < <(compgen -W "$(_ddprun_first "$command")" -- "$current")
    [[ $command != manifest ]] || return
  fi
  case $rest in
    program) _ddprun_reply_program ;;
    file) option=FILE && _ddprun_reply_value '' ;;
  esac
}

complete -F _ddprun ddprun
)script";

using Value = CompletedOption::Value;

std::string bash_value(const CompletedOption& option) {
  if (option.value == Value::file) return "FILE";
  if (option.value == Value::directory) return "DIR";
  return option.value == Value::words ? joined(option.words) : "OTHER";
}

/// A function that prints, for each of its argument's values, this text.
std::string bash_function(std::string_view name, const std::map<std::string, std::string>& texts) {
  std::string script = "\n" + std::string(name) + "() {\n  case $1 in\n";
  for (const auto& [argument, text] : texts) {
    script.append("    ").append(single_quoted(argument)).append(") echo ");
    script.append(single_quoted(text)).append(" ;;\n");
  }
  return script.append("  esac\n}\n");
}

}  // namespace

std::string bash_completion(const std::vector<CompletedCommand>& commands) {
  std::map<std::string, std::string> options, first, rest, values;
  for (const CompletedCommand& command : commands) {
    std::string& names = options[command.name];
    for (const CompletedOption& option : command.options) {
      names.append(names.empty() ? "" : " ").append(joined(option.names));
      if (option.value == Value::none) continue;
      for (const std::string& name : option.names) values[name] = bash_value(option);
    }
    first[command.name] = joined(command.words);
    if (command.rest == CompletedCommand::Rest::program) rest[command.name] = "program";
    if (command.rest == CompletedCommand::Rest::file) rest[command.name] = "file";
  }
  return "# Completion of ddprun for bash, by ddprun --print_completion bash\n" +
         bash_function("_ddprun_options", options) + bash_function("_ddprun_first", first) +
         bash_function("_ddprun_rest", rest) + bash_function("_ddprun_value", values) +
         std::string(kBashFunctions);
}

}  // namespace ddprun::cli
