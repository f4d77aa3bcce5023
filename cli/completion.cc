// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cli/line/flags.h"
#include "cli/line/verb_line.h"
#include "cli/manifest/manifest.h"
#include "cli/manifest_line.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

using Value = CompletedOption::Value;
using Rest = CompletedCommand::Rest;

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
  CompletedOption option = option_of(std::move(names), flag.value, flag.help);
  option.may_be_alone = flag.may_be_alone();
  return option;
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
  for (std::string_view rest = verb.options; !rest.empty();) {
    options.push_back(option_of({std::string(take_piece(rest, ' '))}, "", ""));
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

namespace {

using Shell = Completion::Shell;
using Rest = CompletedCommand::Rest;
using Value = CompletedOption::Value;

constexpr std::array<std::string_view, 5> kShellNames = {"nothing", "file", "directory", "program",
                                                         "argument"};

// bash splits words at "=" and ":" (COMP_WORDBREAKS), and replaces only the last part of a word.
constexpr std::string_view kBash = R"script(# Completion of ddprun for bash
_ddprun() {  # COMMAND
  local adds before typed words word piece=${COMP_WORDS[COMP_CWORD]}
  { read -r adds _ && IFS= read -r before && IFS= read -r typed && readarray -t words; } \
    < <(command "$1" __complete "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  local value=${typed#"$before"}
  [[ $adds != program || ! $value ]] || readarray -t -O ${#words[@]} words < <(compgen -c -- "$value")
  case $adds in
    directory) compopt -o filenames && readarray -t words < <(compgen -P "$before" -d -- "$value") ;;
    nothing | '') ;;
    *) compopt -o filenames && readarray -t -O ${#words[@]} words < <(compgen -P "$before" -f -- "$value") ;;
  esac
  [[ $piece != [:=]* ]] || piece=
  COMPREPLY=()
  for word in "${words[@]%%$'\t'*}"; do COMPREPLY+=("${word#"${typed%"$piece"}"}"); done
}
complete -F _ddprun ddprun
)script";

constexpr std::string_view kZsh = R"script(#compdef ddprun
# Completion of ddprun for zsh
_ddprun() {
  local -a answer described
  answer=("${(@f)$(command ${(Q)words[1]} __complete "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
  described=("${(@)${(@)answer[4,-1]//:/\\:}/$'\t'/:}")
  (( $#answer < 4 )) || _describe -V word described
  case $answer[1] in
    file) compset -P "$answer[2]"; _files ;;
    directory) compset -P "$answer[2]"; _files -/ ;;
    program) _alternative 'programs:program:_command_names -e' 'files:file:_files' ;;
    argument*) shift ${answer[1]#* } words; (( CURRENT -= ${answer[1]#* } )); _normal ;;
  esac
}
if [[ $funcstack[1] == _ddprun ]]; then _ddprun "$@"; else compdef _ddprun ddprun; fi
)script";

constexpr std::string_view kFish = R"script(# Completion of ddprun for fish
function __ddprun_complete
    set -l line (commandline -cp)
    set -l words (commandline -opc)
    set -l answer (command $words[1] __complete "$line" 2>/dev/null)
    set -l value (string replace -- "$answer[2]" '' "$answer[3]")
    switch "$answer[1]"
        case file
            __fish_complete_path "$value" | string replace -r '^' -- "$answer[2]"
        case directory
            __fish_complete_directories "$value" '' | string replace -r '^' -- "$answer[2]"
        case program
            __fish_complete_command
        case 'argument*'
            __fish_complete_path "$value"
    end
    printf '%s\n' $answer[4..]
end
complete -c ddprun -f -a '(__ddprun_complete)'
)script";

/// A command line up to the word to complete.
struct Scanned {
  const CompletedCommand* command = nullptr;
  const CompletedOption* option = nullptr;  ///< the last word is its value; nullptr: of none
  size_t begin = 0;                         ///< of the words after the command's name
  std::optional<size_t> program = {};       ///< the first word that is no option
};

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

const CompletedCommand* find_command(const std::vector<CompletedCommand>& commands,
                                     const std::string& name) {
  const auto found = std::ranges::find(commands, name, &CompletedCommand::name);
  return found == commands.end() ? nullptr : &*found;
}

/// The option of this name, if it has a value; else nullptr.
const CompletedOption* option_with_value(const CompletedCommand& command, std::string name) {
  if (name.starts_with("--")) std::replace(name.begin() + 2, name.end(), '-', '_');
  for (const CompletedOption& option : command.options) {
    if (std::ranges::find(option.names, name) == option.names.end()) continue;
    return option.value == Value::none ? nullptr : &option;
  }
  return nullptr;
}

bool takes(const CompletedOption& option, const std::string& word) {
  return !option.may_be_alone || std::ranges::count(option.words, word) > 0;
}

/// Whether a kind comes before the options, as in `ddprun manifest`.
bool has_kind(const CompletedCommand& command) {
  return !command.name.empty() && command.rest == Rest::program && !command.words.empty();
}

Scanned scan(const std::vector<CompletedCommand>& commands, const std::vector<std::string>& words) {
  Scanned line{.command = &commands.front()};
  const size_t last = words.size() - 1;
  if (last > 0 && !words.front().empty()) {
    if (const auto* command = find_command(commands, words.front())) {
      line.command = command;
      line.begin = 1;
    }
  }
  for (size_t at = line.begin; at < last; ++at) {
    const std::string& word = words[at];
    const bool is_value = line.option != nullptr && takes(*line.option, word);
    line.option = nullptr;
    if (is_value) continue;
    if (word == "--") {
      line.program = at + 1;
      return line;
    } else if (word.starts_with('-') && word.size() > 1) {
      if (word.find('=') == std::string::npos) line.option = option_with_value(*line.command, word);
    } else if (at > line.begin || !has_kind(*line.command)) {
      line.program = at;
      return line;
    }
  }
  return line;
}

void add(Completion& completion, const std::string& typed, const std::string& word,
         const std::string& help = "") {
  if (word.starts_with(typed)) completion.words.push_back({word, help});
}

/// `before` is the beginning of the word before the value.
Completion complete_value(const CompletedOption& option, const std::string& typed,
                          const std::string& before) {
  Completion completion{.before = before};
  if (option.value == Value::file) completion.shell = Shell::file;
  if (option.value == Value::directory) completion.shell = Shell::directory;
  for (const std::string& word : option.words) add(completion, typed, before + word);
  return completion;
}

/// If the typed option has dashes between its words, the others get them, too.
Completion complete_option(const CompletedCommand& command, const std::string& typed) {
  const bool has_dashes = typed.find('-', 2) != std::string::npos && typed.starts_with("--") &&
                          typed.find('_') == std::string::npos;
  Completion completion;
  for (const CompletedOption& option : command.options) {
    for (std::string name : option.names) {
      if (has_dashes) std::replace(name.begin(), name.end(), '_', '-');
      add(completion, typed, name, option.help);
    }
  }
  return completion;
}

/// Takes a word off `rest`, and removes its quotes.
std::string take_word(std::string_view& rest) {
  std::string word;
  char quote = '\0';
  while (!rest.empty() && (quote != '\0' || !is_blank(rest.front()))) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '\\' && quote != '\'' && !rest.empty()) {
      word += rest.front();
      rest.remove_prefix(1);
    } else if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else {
      word += c;
    }
  }
  return word;
}

}  // namespace

std::string completion_script(std::string_view shell) {
  return std::string(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
}

Completion complete(const std::vector<std::string>& words) {
  const std::vector<CompletedCommand> commands = completed_commands();
  const Scanned line = scan(commands, words);
  const CompletedCommand& command = *line.command;
  const size_t last = words.size() - 1;
  const std::string& typed = words[last];

  if (line.option != nullptr && !line.option->may_be_alone) {
    return complete_value(*line.option, typed, "");
  }
  if (command.rest == Rest::program && line.program) {
    if (*line.program == last) return {.shell = Shell::program};
    return {.shell = Shell::argument, .program = *line.program + 1};
  }
  if (typed.starts_with("--") && typed.find('=') != std::string::npos) {
    const std::string before = typed.substr(0, typed.find('=') + 1);
    const auto* option = option_with_value(command, before.substr(0, before.size() - 1));
    return option == nullptr ? Completion() : complete_value(*option, typed, before);
  }
  if (typed.starts_with('-')) return complete_option(command, typed);

  Completion completion;
  if (line.option != nullptr) completion = complete_value(*line.option, typed, "");
  if (last == line.begin) {
    for (const CompletedWord& word : command.words) add(completion, typed, word.text, word.help);
    if (has_kind(command)) return completion;
  }
  if (command.rest == Rest::program) completion.shell = Shell::program;
  if (command.rest == Rest::file) completion.shell = Shell::file;
  return completion;
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    words.push_back(take_word(line));
    if (line.empty()) return words;
  }
}

std::string completion_answer(std::string_view line) {
  std::vector<std::string> words = words_of(line);
  if (words.size() < 2) words.emplace_back();
  const Completion completion = complete({words.begin() + 1, words.end()});
  std::string answer(kShellNames.at(static_cast<size_t>(completion.shell)));
  if (completion.shell == Shell::argument) answer += " " + std::to_string(completion.program);
  answer += "\n" + completion.before + "\n" + words.back() + "\n";
  for (const CompletedWord& word : completion.words) {
    answer += word.text;
    if (!word.help.empty()) answer += "\t" + word.help;
    answer += '\n';
  }
  return answer;
}

}  // namespace ddprun::cli
