// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/worker_env.h"
#include "cli/dry_run.h"
#include "cli/flags.h"
#include "cli/resolve.h"
#include "cli/suggest.h"
#include "cli/usage.h"

namespace ddprun::cli {
namespace {

constexpr std::string_view kServe = "serve";  // as the first word

/// The two halves of a command line.
struct CommandLine {
  std::vector<std::string> options;  ///< flags as the table spells them, values as words
  std::vector<const Flag*> given;    ///< those flags, each once
  std::vector<std::string> command;  ///< the program and its words
  bool set_apart = false;            ///< "--" stands between the two

  bool gives(const Flag& flag) const {
    return std::find(given.begin(), given.end(), &flag) != given.end();
  }
};

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
  std::optional<std::string> near = suggest(canonical, names);
  if (near) near = spelled(*find_flag(*near));  // and not one of its other names
  if (!near) near = parted(said);
  if (!near && canonical.size() > 4) {  // "--nproc": too short to be near, but a beginning
    const auto longer = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(canonical);
    });
    if (longer != names.end()) near = *longer;
  }
  if (said == "-n" || said == "-np" || said == "--np") near = "--nproc_per_node";  // mpirun's
  return usage("unknown flag " + said +
               (near ? "; did you mean " + *near + "?" : "; ddprun --help lists all flags"));
}

/// Whether `word` can be the value of the flag before it.
bool is_value(std::string_view word) {
  return word != "--" && find_flag(word) == nullptr;
}

/// Finds where the options end. A flag that ends the reading, because it answers or has to be
/// refused whatever follows it, is the last option.
CommandLine divide(std::span<const char* const> words) {
  CommandLine line;
  size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (!word.starts_with('-') || word == "-" || word == "--") break;
    const auto [flag, value] = read_flag(word);
    if (flag == nullptr) {
      line.options.emplace_back(word);
      return line;
    }
    line.options.push_back(spelled(*flag));
    if (!line.gives(*flag)) line.given.push_back(flag);
    if (flag->value.empty()) {
      if (value) line.options.back().append("=").append(*value);
      if (flag->name == kHelp || flag->name == kVersion) return line;
    } else if (value) {
      line.options.emplace_back(*value);  // "--flag=" is no value to CLI11
    } else if (at + 1 < words.size() && is_value(words[at + 1])) {
      line.options.emplace_back(words[++at]);
    } else {
      return line;
    }
  }
  line.set_apart = at < words.size() && std::string_view(words[at]) == "--";
  if (line.set_apart) ++at;
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

CLI::Option* add_flag(CLI::App& app, const Flag& flag) {
  if (flag.name == kHelp) return app.set_help_flag(spelled(flag));
  if (flag.name == kVersion) {
    return app.set_version_flag(spelled(flag), "ddprun " DDPRUN_VERSION "\n");
  }
  return flag.value.empty() ? app.add_flag(spelled(flag)) : app.add_option(spelled(flag));
}

/// Tells CLI11 of the flags that are given, and of no other: it compares each one it learns with
/// all before, which for the whole table would cost each start 0.2 ms.
void add_flags(CLI::App& app, const CommandLine& line) {
  app.set_help_flag();
  for (const Flag* flag : line.given) {
    CLI::Option* option = add_flag(app, *flag);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (flag->value.empty()) option->disable_flag_override();
  }
}

/// Why CLI11 does not take `word`, a flag with or without a value.
Error refusal(const std::string& word) {
  const Flag* flag = find_flag(word);
  if (flag == nullptr) return unknown_flag(word);
  if (!flag->value.empty()) {
    return usage(spelled(*flag) + " needs a value: " + std::string(flag->wants));
  }
  return usage(spelled(*flag) + " takes no value, but got '" + word.substr(word.find('=') + 1) +
               "'");
}

/// Lets CLI11 read the options. The result is the text of the flag that answers, if there is one.
Result<std::optional<Print>> read_options(CLI::App& app, const std::vector<std::string>& options,
                                          Mode mode) {
  std::vector<std::string> unread(options.rbegin(), options.rend());
  try {
    app.parse(unread);
  } catch (const CLI::CallForHelp&) {
    return std::optional(Print{help_text(mode)});
  } catch (const CLI::CallForVersion& version) {
    return std::optional(Print{version.what()});
  } catch (const CLI::ExtrasError&) {
    return refusal(app.remaining().front());
  } catch (const CLI::ParseError&) {  // at the word before those it left unread
    return refusal(options[options.size() - 1 - unread.size()]);
  }
  return std::optional<Print>();
}

/// Whether what was given has a meaning in this mode.
Result<> check_mode(const CLI::App& app, const CommandLine& line, Mode mode) {
  if (mode == Mode::run) return {};
  for (const CLI::Option* option : app.parse_order()) {
    const Flag& flag = *find_flag(option->get_name());
    if (flag.in(mode)) continue;
    return usage(spelled(flag) +
                 " is not for ddprun serve, which runs no workers; see ddprun serve --help");
  }
  if (line.command.empty()) return {};
  return usage("ddprun serve runs no program, but got '" + line.command.front() +
               "'; a program called serve is run as ddprun ./serve");
}

Result<> take(const Flag& flag, const std::string& value, const std::string& said_by,
              RawOptions& raw) {
  const Taken taken = flag.take(value, raw);
  if (taken) return {};
  if (!taken.reason().empty()) return usage(said_by + " " + taken.reason());
  return usage(said_by + " wants " + std::string(flag.wants) + ", not '" + value + "'");
}

/// The variable that speaks for `flag`, and what it says; nothing: none is set.
struct Spoken {
  std::string_view variable;
  const char* value = nullptr;
};
Spoken find_spoken(const Flag& flag, const std::vector<std::string>& environment) {
  for (const std::string_view variable : {flag.environment, flag.second_environment}) {
    const char* value = variable.empty() ? nullptr : agent::find_variable(environment, variable);
    if (value != nullptr && *value != '\0') return {variable, value};
  }
  return {};
}

/// CLI11 could read the environment, but only this process's own, and would blame the flag for
/// what a variable says.
Result<> parse_environment(const CommandLine& line, const std::vector<std::string>& environment,
                           Mode mode, RawOptions& raw) {
  for (const bool yielding : {true, false}) {
    for (const Flag& flag : flags()) {
      if (flag.yields() != yielding || !flag.in(mode) || line.gives(flag)) continue;
      const Spoken spoken = find_spoken(flag, environment);
      if (spoken.value == nullptr) continue;
      const Result<> taken = take(flag, spoken.value, std::string(spoken.variable), raw);
      if (!taken) return taken.error();
    }
  }
  return {};
}

Result<> parse_options(const CLI::App& app, RawOptions& raw) {
  for (const bool yielding : {true, false}) {
    for (const CLI::Option* option : app.parse_order()) {
      const Flag& flag = *find_flag(option->get_name());
      if (flag.yields() != yielding) continue;
      const std::string value = flag.value.empty() ? "1" : option->results().back();
      const Result<> taken = take(flag, value, spelled(flag), raw);
      if (!taken) return taken.error();
    }
  }
  return {};
}

/// Everything that is read before anything is decided. The result is the text of the flag that
/// answers, if there is one.
Result<std::optional<Print>> read(const CommandLine& line, const Host& host, Mode mode,
                                  RawOptions& raw) {
  CLI::App app;
  add_flags(app, line);
  Result<std::optional<Print>> answer = read_options(app, line.options, mode);
  if (!answer || *answer) return answer;
  if (const Result<> fit = check_mode(app, line, mode); !fit) return fit.error();

  // The environment's say comes first, so that the command line's counts where two flags speak of
  // one thing.
  if (const Result<> taken = parse_environment(line, host.environment, mode, raw); !taken) {
    return taken.error();
  }
  if (const Result<> taken = parse_options(app, raw); !taken) return taken.error();
  return std::optional<Print>();
}

}  // namespace

Result<Parsed> parse(std::span<const char* const> words, const Host& host) {
  const bool serves = !words.empty() && std::string_view(words.front()) == kServe;
  const Mode mode = serves ? Mode::serve : Mode::run;
  CommandLine line = divide(serves ? words.subspan(1) : words);
  RawOptions raw;
  raw.set_apart = line.set_apart;
  Result<std::optional<Print>> answer = read(line, host, mode, raw);
  if (!answer) return answer.error();
  if (*answer) return Parsed(std::move(**answer));

  if (const Result<> place = resolve_rendezvous(raw, mode); !place) return place.error();
  if (serves) return Parsed(Serve{std::move(raw.job)});
  if (const Result<> program = resolve_program(raw, std::move(line.command), host); !program) {
    return program.error();
  }
  if (const Result<> workers = resolve_workers(raw, host); !workers) return workers.error();
  if (const Result<> bindings = resolve_bindings(raw, host); !bindings) return bindings.error();
  if (const Result<> prefix = resolve_prefix(raw, host); !prefix) return prefix.error();
  const char* error_file = agent::find_variable(host.environment, agent::kErrorFile);
  if (error_file != nullptr) raw.job.error_file = error_file;
  if (raw.dry_run) return Parsed(Print{dry_run_text(raw.job, host)});
  return Parsed(std::move(raw.job));
}

}  // namespace ddprun::cli
