// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/worker_env.h"
#include "cli/dry_run.h"
#include "cli/flags.h"
#include "cli/nearest.h"
#include "cli/settle.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kServe = "serve";  // as the first word

/// A flag that was given; the value of a switch is "1".
struct Option {
  const Flag* flag;
  std::string value;
};

/// The two halves of a command line.
struct CommandLine {
  std::vector<Option> options;       ///< each flag once, where it stood last
  std::vector<std::string> command;  ///< the program and its words
  bool set_apart = false;            ///< "--" stands between the two

  bool gives(const Flag& flag) const {
    return std::any_of(options.begin(), options.end(),
                       [&](const Option& option) { return option.flag == &flag; });
  }
};

Error usage(std::string sentence) {
  return {Errc::usage, std::move(sentence)};
}

std::string spelled(const Flag& flag) {
  return "--" + std::string(flag.name);
}

/// "-m pkg" for "-mpkg": this letter takes no value, so what follows it is another word.
std::optional<std::string> parted(const std::string& word) {
  if (word.starts_with("--")) return std::nullopt;
  const Flag* flag = find_flag(word.substr(0, 2));
  if (flag == nullptr || flag->name == kHelp) return std::nullopt;
  return word.substr(0, 2) + " " + word.substr(2);
}

Error unknown_flag(std::string_view word) {
  const std::string said(word.substr(0, word.find('=')));
  std::string canonical = said;
  std::replace(canonical.begin() + std::min<std::ptrdiff_t>(2, std::ssize(canonical)),
               canonical.end(), '-', '_');
  std::vector<std::string> names;
  for (const Flag& flag : flags()) {
    names.push_back(spelled(flag));
    if (!flag.alias.empty()) names.push_back("--" + std::string(flag.alias));
  }
  std::optional<std::string> near = nearest(canonical, names);
  if (near) near = spelled(*find_flag(*near));  // and not one of its other names
  if (!near) near = parted(said);
  if (!near && canonical.size() > 4) {  // "--nproc": too short to be near, but a beginning
    const auto longer = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(canonical);
    });
    if (longer != names.end()) near = *longer;
  }
  return usage("unknown flag " + said +
               (near ? "; did you mean " + *near + "?" : "; ddprun --help lists all flags"));
}

Error missing_value(const Flag& flag) {
  return usage(spelled(flag) + " needs a value: " + std::string(flag.wants));
}

Error needless_value(const Said& said) {
  return usage(spelled(*said.flag) + " takes no value, but got '" + std::string(*said.value) + "'");
}

bool answers(const Flag& flag) {
  return flag.name == kHelp || flag.name == kVersion;
}

/// Whether `word` can be the value of the flag before it.
bool is_value(std::string_view word) {
  return word != "--" && find_flag(word) == nullptr;
}

/// Finds where the options end. A flag that answers is the last option, whatever follows it.
Result<CommandLine> divide(std::span<const char* const> words) {
  CommandLine line;
  size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (!word.starts_with('-') || word == "-" || word == "--") break;
    Said said = read_flag(word);
    if (said.flag == nullptr) return unknown_flag(word);
    if (said.flag->value.empty()) {
      if (said.value && *said.value != "true") return needless_value(said);
      said.value = "1";
    } else if (!said.value) {
      if (at + 1 == words.size() || !is_value(words[at + 1])) return missing_value(*said.flag);
      said.value = words[++at];
    }
    std::erase_if(line.options, [&](const Option& earlier) { return earlier.flag == said.flag; });
    line.options.push_back({said.flag, std::string(*said.value)});
    if (answers(*said.flag)) return line;
  }
  line.set_apart = at < words.size() && std::string_view(words[at]) == "--";
  if (line.set_apart) ++at;
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

/// Whether what was given has a meaning in this mode.
Result<> check_mode(const CommandLine& line, Mode mode) {
  if (mode == Mode::run) return {};
  for (const Option& option : line.options) {
    if (option.flag->in(mode)) continue;
    return usage(spelled(*option.flag) +
                 " is not for ddprun serve, which runs no workers; see ddprun serve --help");
  }
  if (line.command.empty()) return {};
  return usage("ddprun serve runs no program, but got '" + line.command.front() +
               "'; a program called serve is run as ddprun ./serve");
}

Result<> take(const Flag& flag, const std::string& value, const std::string& said_by,
              Choices& choices) {
  const Taken taken = flag.take(value, choices);
  if (taken) return {};
  if (!taken.reason().empty()) return usage(said_by + " " + taken.reason());
  return usage(said_by + " wants " + std::string(flag.wants) + ", not '" + value + "'");
}

Result<> take_environment(const CommandLine& line, const std::vector<std::string>& environment,
                          Mode mode, Choices& choices) {
  for (const bool yielding : {true, false}) {
    for (const Flag& flag : flags()) {
      if (flag.yields() != yielding || flag.environment.empty() || !flag.in(mode)) continue;
      if (line.gives(flag)) continue;
      const char* value = agent::find_variable(environment, flag.environment);
      if (value == nullptr || *value == '\0') continue;
      const Result<> taken = take(flag, value, std::string(flag.environment), choices);
      if (!taken) return taken.error();
    }
  }
  return {};
}

Result<> take_options(const CommandLine& line, Choices& choices) {
  for (const bool yielding : {true, false}) {
    for (const Option& option : line.options) {
      if (option.flag->yields() != yielding) continue;
      const Result<> taken = take(*option.flag, option.value, spelled(*option.flag), choices);
      if (!taken) return taken.error();
    }
  }
  return {};
}

/// Everything that is said before anything is decided.
Result<Choices> choose(const CommandLine& line, const Host& host, Mode mode) {
  if (const Result<> fit = check_mode(line, mode); !fit) return fit.error();
  Choices choices;
  // The environment's say comes first, so that the command line's counts where two flags speak of
  // one thing.
  if (const Result<> taken = take_environment(line, host.environment, mode, choices); !taken) {
    return taken.error();
  }
  if (const Result<> taken = take_options(line, choices); !taken) return taken.error();
  return choices;
}

}  // namespace

Result<Parsed> parse(std::span<const char* const> words, const Host& host) {
  const bool serves = !words.empty() && std::string_view(words.front()) == kServe;
  const Mode mode = serves ? Mode::serve : Mode::run;
  Result<CommandLine> line = divide(serves ? words.subspan(1) : words);
  if (!line) return line.error();
  if (!line->options.empty() && answers(*line->options.back().flag)) {
    const bool help = line->options.back().flag->name == kHelp;
    return Parsed(Print{help ? help_text(mode) : "ddprun " DDPRUN_VERSION "\n"});
  }
  Result<Choices> chosen = choose(*line, host, mode);
  if (!chosen) return chosen.error();
  Choices& choices = *chosen;
  choices.set_apart = line->set_apart;

  if (const Result<> place = settle_rendezvous(choices, mode); !place) return place.error();
  if (serves) return Parsed(Serve{std::move(choices.job)});
  if (const Result<> program = settle_program(choices, std::move(line->command), host); !program) {
    return program.error();
  }
  if (const Result<> workers = settle_workers(choices, host); !workers) return workers.error();
  if (const Result<> prefix = settle_prefix(choices, host); !prefix) return prefix.error();
  const char* error_file = agent::find_variable(host.environment, agent::kErrorFile);
  if (error_file != nullptr) choices.job.error_file = error_file;
  if (choices.dry_run) return Parsed(Print{dry_run_text(choices.job, host)});
  return Parsed(std::move(choices.job));
}

}  // namespace ddprun::cli
