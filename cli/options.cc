// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/worker/worker_env.h"
#include "cli/completion.h"
#include "cli/doctor_job.h"
#include "cli/dry_run.h"
#include "cli/engine_values.h"
#include "cli/flag_sources.h"
#include "cli/line/flags.h"
#include "cli/line/usage_error.h"
#include "cli/manifest_line.h"
#include "cli/manual/pages.h"
#include "cli/remote_job.h"
#include "cli/resolve.h"

namespace ddprun::cli {
namespace {

// Commands: the first word.
constexpr std::string_view kServe = "serve";
constexpr std::string_view kDoctor = "doctor";
constexpr std::string_view kSecret = "secret";
constexpr std::string_view kManifest = "manifest";
constexpr std::string_view kHelpVerb = "help";
constexpr std::string_view kLaunch = "launch";

/// The two halves of a command line.
struct CommandLine {
  std::vector<std::string> options;  ///< flags in the table's spelling, values as separate words
  std::vector<const Flag*> given;    ///< those flags, each once
  std::vector<std::string> command;  ///< the program and its arguments
  bool has_separator = false;        ///< "--" is between the halves
  bool asks_for_short_help = false;  ///< -h ends the options

  bool gives(const Flag& flag) const {
    return std::find(given.begin(), given.end(), &flag) != given.end();
  }
};

/// "-m pkg" for "-mpkg": the letter takes no value, so the rest becomes another word.
std::optional<std::string> split_letter(const std::string& word) {
  if (word.starts_with("--")) return std::nullopt;
  const Flag* flag = find_flag(word.substr(0, 2));
  if (flag == nullptr || flag->name == kHelp) return std::nullopt;
  return word.substr(0, 2) + " " + word.substr(2);
}

/// "--nproc_per_node" for "--NPROC-per-node".
std::string in_table_spelling(const std::string& given) {
  if (!given.starts_with("--")) return given;
  std::string name = given;
  std::transform(name.begin() + 2, name.end(), name.begin() + 2, [](char c) {
    return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

/// ddprun's flag for one of mpirun, srun, accelerate, deepspeed or horovodrun, or what to do
/// without it; empty: unknown.
std::string_view of_other_launcher(const std::string& given) {
  struct Ours {
    std::string_view instead, theirs;
  };
  static constexpr auto kOthers = std::to_array<Ours>({
      {"--nproc_per_node",
       " -n -np -ppn -npernode --np --npernode --nprocs --workers --num_processes --num_proc "
       "--num_gpus --gpus --ntasks --ntasks_per_node --map_by "},
      {"--nproc_per_node gpu", " --gres "},
      {"--nnodes or --nproc_per_node", " -N "},
      {"--nnodes", " --nodes --num_nodes --num_machines "},
      {"--node_rank", " --machine_rank "},
      {"--master_addr", " --main_process_ip "},
      {"--master_port", " --main_process_port "},
      {"--hosts", " -H --host "},
      {"--hostfile", " -f -machinefile --machinefile "},
      {"--export", " -x -genv -genvlist "},
      {"--numa_binding", " -bind-to --bind_to --cpu_bind "},
      {"--prefix", " -l -prepend-rank --tag_output --label "},
      {"--log_level debug", " -v --verbose "},
      {"ddprun needs no such flag: leave it out",
       " --oversubscribe --overcommit --allow_run_as_root "},
      {"for Open MPI set OMPI_MCA_NAME=VALUE in the environment", " -mca --mca "},
  });
  const std::string word = " " + in_table_spelling(given) + " ";
  const auto* other = std::find_if(kOthers.begin(), kOthers.end(), [&](const Ours& ours) {
    return ours.theirs.find(word) != ours.theirs.npos;
  });
  return other == kOthers.end() ? "" : other->instead;
}

Error unknown_flag(std::string_view word) {
  const std::string given(word.substr(0, word.find('=')));
  const std::string canonical = in_table_spelling(given);
  std::vector<std::string> names;
  for (const Flag& flag : flags()) {
    names.push_back(spelled(flag));
    if (!flag.alias.empty()) names.push_back("--" + std::string(flag.alias));
  }
  std::optional<std::string> near = suggest(canonical, names);
  if (near) near = spelled(*find_flag(*near));  // for an alias, the flag's own name
  if (!near) near = split_letter(given);
  if (!near && canonical.size() > 4) near = name_that_begins_with(canonical, names);
  std::string_view otherwise = "ddprun --help lists all flags";
  if (const auto other = of_other_launcher(given); other.starts_with('-')) {
    near = other;
  } else if (!other.empty()) {
    near.reset();
    otherwise = other;
  }
  return usage_error("unknown flag " + given + did_you_mean(near, otherwise));
}

/// Separates the options from the command. If a flag prints something, or is an error in any case,
/// it ends the options, and there is no command.
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
      line.asks_for_short_help = word == "-h";
      if (flag->name == kHelp || flag->name == kVersion) return line;
    } else if (value) {
      line.options.emplace_back(*value);
    } else if (at + 1 < words.size() && can_follow(*flag, words[at + 1])) {
      line.options.emplace_back(words[++at]);
    } else if (flag->may_be_alone()) {
      line.options.emplace_back(flag->left_out);
    } else {
      return line;
    }
  }
  line.has_separator = at < words.size() && std::string_view(words[at]) == "--";
  if (line.has_separator) ++at;
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

CLI::Option* add_flag(CLI::App& app, const Flag& flag) {
  if (flag.name == kHelp) return app.set_help_flag(spelled(flag));
  if (flag.name == kVersion) {
    return app.set_version_flag(spelled(flag), version_text());
  }
  return flag.value.empty() ? app.add_flag(spelled(flag)) : app.add_option(spelled(flag));
}

/// Adds only the given flags: CLI11 compares each new flag with all earlier ones. With the whole
/// table, this would cost each start 0.2 ms.
void add_flags(CLI::App& app, const CommandLine& line) {
  app.set_help_flag();
  for (const Flag* flag : line.given) {
    CLI::Option* option = add_flag(app, *flag);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (flag->value.empty()) option->disable_flag_override();
  }
}

/// Why CLI11 refuses `word`, a flag with or without a value.
Error refusal(const std::string& word) {
  const Flag* flag = find_flag(word);
  if (flag == nullptr) return unknown_flag(word);
  if (!flag->value.empty()) {
    return usage_error(spelled(*flag) + " needs a value: " + std::string(flag->expects));
  }
  return usage_error(spelled(*flag) + " takes no value, but got '" +
                     word.substr(word.find('=') + 1) + "'");
}

std::string_view page_name(Mode mode) {
  return mode == Mode::serve ? kServe : mode == Mode::doctor ? kDoctor : "";
}

/// Lets CLI11 read the options. If a flag asks for a text, returns that text.
Result<std::optional<Print>> read_options(CLI::App& app, const std::vector<std::string>& options,
                                          Mode mode) {
  std::vector<std::string> unread(options.rbegin(), options.rend());
  try {
    app.parse(unread);
  } catch (const CLI::CallForHelp&) {
    return std::optional(Print{plain_text(page_of(page_name(mode)))});
  } catch (const CLI::CallForVersion& version) {
    return std::optional(Print{version.what()});
  } catch (const CLI::ExtrasError&) {
    return refusal(app.remaining().front());
  } catch (const CLI::ParseError&) {  // about the word before the unread ones
    return refusal(options[options.size() - 1 - unread.size()]);
  }
  return std::optional<Print>();
}

/// Errors: usage (a flag or a command that this mode does not accept).
Result<> check_mode(const CLI::App& app, const CommandLine& line, Mode mode) {
  for (const CLI::Option* option : app.parse_order()) {
    const Flag& flag = *find_flag(option->get_name());
    if (flag.in(mode)) continue;
    return usage_error(
        spelled(flag) +
        (mode == Mode::serve
             ? " is not for ddprun serve, which runs no workers; see ddprun serve --help"
             : " is for ddprun doctor alone; the program's own flags follow the program"));
  }
  if (line.command.empty() || mode != Mode::serve) return {};
  return usage_error("ddprun serve runs no program, but got '" + line.command.front() +
                     "'; a program called serve is run as ddprun ./serve");
}

Result<> set_from_options(const CLI::App& app, RawOptions& raw) {
  for (const bool yielding : {true, false}) {
    for (const CLI::Option* option : app.parse_order()) {
      const Flag& flag = *find_flag(option->get_name());
      if (flag.yields() != yielding) continue;
      const std::string value = flag.value.empty() ? "1" : option->results().back();
      const Result<> set = set_option(flag, value, spelled(flag), raw);
      if (!set) return set.error();
    }
  }
  return {};
}

/// The value of --config.
std::optional<std::string> named_config(const CLI::App& app) {
  const CLI::Option* option = app.get_option_no_throw("--config");
  if (option == nullptr || option->empty()) return std::nullopt;
  return option->results().back();
}

/// Sets `raw` from a configuration file, the environment and the options. If a flag asks for a
/// text, returns that text.
Result<std::optional<Print>> read(const CommandLine& line, const Host& host, Mode mode,
                                  RawOptions& raw) {
  CLI::App app;
  add_flags(app, line);
  Result<std::optional<Print>> print = read_options(app, line.options, mode);
  if (!print || *print) return print;
  if (const Result<> checked = check_mode(app, line, mode); !checked) return checked.error();

  // The weakest source comes first, so that the others override it even through another flag.
  const Result<> config = set_from_config(named_config(app), line.given, mode, host, raw);
  if (!config) return config.error();
  if (const Result<> set = set_from_environment(line.given, mode, host, raw); !set) {
    return set.error();
  }
  if (const Result<> set = set_from_options(app, raw); !set) return set.error();
  return std::optional<Print>();
}

/// Whether the node has to join and report the error: otherwise the other nodes would wait for it.
bool is_for_others(const Error& error, const RawOptions& raw) {
  const bool is_about_program = error.code == Errc::not_found || error.code == Errc::not_executable;
  return is_about_program && raw.job.max_nodes > 1 && !raw.dry_run;
}

Mode mode_of(std::span<const char* const> words) {
  if (!words.empty() && words.front() == kServe) return Mode::serve;
  if (!words.empty() && words.front() == kDoctor) return Mode::doctor;
  return Mode::run;
}

/// `words` follow "launch": as torch.distributed.launch, passes the workers their local rank,
/// unless
/// --use_env is given.
Result<Parsed> parse_launch(std::span<const char* const> words, const Host& host) {
  std::vector<const char*> all = {"--pass_local_rank=dash"};
  all.insert(all.end(), words.begin(), words.end());
  return parse(all, host);
}

/// `words` follow "secret".
Result<Parsed> parse_secret(std::span<const char* const> words) {
  if (words.empty()) return Parsed(MakeSecret());
  const std::string word = words.front();
  if (asks_for_help(word)) return Parsed(Print{plain_text(page_of(kSecret))});
  if (words.size() == 1 && !word.starts_with('-')) return Parsed(MakeSecret{word});
  return usage_error("ddprun secret takes the name of a file or nothing, but got '" +
                     std::string(words.back()) +
                     "'; a program called secret is run as ddprun ./secret");
}

Result<Parsed> printed(Result<std::string> output) {
  if (!output) return output.error();
  return Parsed(Print{std::move(*output)});
}

std::string origins_text(const agent::JobSpec& job) {
  std::string text;
  for (const std::string& line : job.origins) text += line + "\n";
  return text;
}

/// The job of --hosts, or of an engine whose agents this process starts.
Result<Parsed> hosts_job(RawOptions& raw, const CommandLine& line, const Host& host) {
  std::vector<std::string> options = raw.config_options;
  options.insert(options.end(), line.options.begin(), line.options.end());
  Result<remote::Job> job = remote_job(raw, options, line.command, host);
  if (!job) return job.error();
  if (raw.dry_run) return Parsed(Print{origins_text(raw.job) + remote_text(*job)});
  job->origins = raw.job.origins;
  return Parsed(std::move(*job));
}

/// This node's part in a job whose rendezvous is resolved.
Result<Parsed> node_job(RawOptions& raw, CommandLine& line, const Host& host) {
  if (const Result<> program = resolve_program(raw, std::move(line.command), host); !program) {
    if (!is_for_others(program.error(), raw)) return program.error();
    raw.job.cannot_run = program.error();
  }
  if (const Result<> workers = resolve_workers(raw, host); !workers) return workers.error();
  if (const Result<> mpi = resolve_mpi(raw, host); !mpi) return mpi.error();
  warn_of_misplaced_flags(raw);
  if (const Result<> logs = check_logs(raw.job); !logs) return logs.error();
  if (const Result<> debugged = check_debugged_rank(raw.job, host); !debugged) {
    return debugged.error();
  }
  if (const Result<> bindings = resolve_bindings(raw, host); !bindings) return bindings.error();
  if (const Result<> prefix = resolve_prefix(raw, host); !prefix) return prefix.error();
  const char* error_file = agent::find_variable(host.environment, agent::kErrorFile);
  if (error_file != nullptr) raw.job.error_file = error_file;
  if (raw.dry_run) {
    return Parsed(Print{origins_text(raw.job) + dry_run_text(raw.job, host)});
  }
  return Parsed(std::move(raw.job));
}

}  // namespace

Result<Parsed> parse(std::span<const char* const> words, const Host& host) {
  if (!words.empty() && words.front() == kSecret) return parse_secret(words.subspan(1));
  if (!words.empty() && words.front() == kManifest) {
    return printed(manifest_output(words.subspan(1)));
  }
  if (!words.empty() && words.front() == kHelpVerb) return printed(help_output(words.subspan(1)));
  if (words.size() == 2 && words.front() == kComplete) {
    return Parsed(Print{completion_answer(words[1])});
  }
  const Mode mode = mode_of(words);
  if (!words.empty() && words.front() == kLaunch) return parse_launch(words.subspan(1), host);
  CommandLine line = divide(mode == Mode::run ? words : words.subspan(1));
  RawOptions raw;
  raw.doctor = mode == Mode::doctor;
  raw.has_separator = line.has_separator;
  Result<std::optional<Print>> print = read(line, host, mode, raw);
  if (!print) return print.error();
  if (*print && line.asks_for_short_help && mode == Mode::run) return Parsed(Print{short_help()});
  if (*print) return Parsed(std::move(**print));
  if (!raw.shell.empty()) return Parsed(Print{completion_script(raw.shell)});
  if (!raw.unread_config.empty()) raw.job.warnings.push_back(raw.unread_config);
  if (const std::string text = settings_text(raw); !text.empty()) raw.job.origins.push_back(text);
  if (raw.remote.are_asked()) return hosts_job(raw, line, host);

  const Result<std::string> engine = mode == Mode::serve ? std::string() : apply_engine(raw, host);
  if (!engine) return engine.error();
  if (mode == Mode::serve) raw.in_slurm = is_in_slurm(raw, host);
  if (!engine->empty()) raw.job.origins.push_back(*engine);
  if (raw.remote.are_asked()) return hosts_job(raw, line, host);  // the engine's hosts
  if (const Result<> rdzv = resolve_rendezvous(raw, mode, host); !rdzv) return rdzv.error();
  const Result<std::string> secret = resolve_secret(raw, host);
  if (!secret) return secret.error();
  if (!secret->empty()) raw.job.origins.push_back(*secret);
  if (mode == Mode::serve) return Parsed(Serve{std::move(raw.job)});
  if (raw.doctor) {
    Result<doctor::Job> job = doctor_job(std::move(raw), std::move(line.command), host);
    if (!job) return job.error();
    return Parsed(std::move(*job));
  }
  return node_job(raw, line, host);
}

}  // namespace ddprun::cli
