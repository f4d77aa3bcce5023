// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "agent/worker_env.h"
#include "cli/dry_run.h"
#include "cli/flags.h"
#include "cli/nearest.h"
#include "launcher/prefix.h"

namespace ddprun::cli {
namespace {

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

/// The two halves of a command line.
struct CommandLine {
  std::vector<std::string> options;  ///< flags as the table spells them, values as words
  std::vector<std::string> command;  ///< the program and its words
};

Error usage(std::string sentence) {
  return {Errc::usage, std::move(sentence)};
}

std::string spelled(const Flag& flag) {
  return "--" + std::string(flag.name);
}

Error unknown_flag(std::string_view word) {
  const std::string said(word.substr(0, word.find('=')));
  std::string canonical = said;
  std::replace(canonical.begin() + std::min<std::ptrdiff_t>(2, std::ssize(canonical)),
               canonical.end(), '-', '_');
  std::vector<std::string> names;
  for (const Flag& flag : flags()) names.push_back(spelled(flag));
  std::optional<std::string> near = nearest(canonical, names);
  if (!near && canonical.size() > 4) {  // "--nproc": too short to be near, but a beginning
    const auto longer = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(canonical);
    });
    if (longer != names.end()) near = *longer;
  }
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
    const Flag* flag = find_flag(word);
    if (flag == nullptr) {
      line.options.emplace_back(word);
      return line;
    }
    const size_t equals = std::min(word.find('='), word.size());
    line.options.push_back(spelled(*flag));
    if (flag->value.empty()) {
      line.options.back() += word.substr(equals);
      if (flag->name == kHelp || flag->name == kVersion) return line;
    } else if (equals < word.size()) {
      line.options.emplace_back(word.substr(equals + 1));  // "--flag=" is no value to CLI11
    } else if (at + 1 < words.size() && is_value(words[at + 1])) {
      line.options.emplace_back(words[++at]);
    } else {
      return line;
    }
  }
  if (at < words.size() && std::string_view(words[at]) == "--") ++at;
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

void add_flags(CLI::App& app) {
  for (const Flag& flag : flags()) {
    CLI::Option* option = nullptr;
    if (flag.name == kHelp) {
      option = app.set_help_flag(spelled(flag));
    } else if (flag.name == kVersion) {
      option = app.set_version_flag(spelled(flag), "ddprun " DDPRUN_VERSION "\n");
    } else if (flag.value.empty()) {
      option = app.add_flag(spelled(flag));
    } else {
      option = app.add_option(spelled(flag));
    }
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    if (flag.value.empty()) option->disable_flag_override();
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
Result<std::optional<Print>> read_options(CLI::App& app, const std::vector<std::string>& options) {
  std::vector<std::string> unread(options.rbegin(), options.rend());
  try {
    app.parse(unread);
  } catch (const CLI::CallForHelp&) {
    return std::optional(Print{help_text()});
  } catch (const CLI::CallForVersion& version) {
    return std::optional(Print{version.what()});
  } catch (const CLI::ExtrasError&) {
    return refusal(app.remaining().front());
  } catch (const CLI::ParseError&) {  // at the word before those it left unread
    return refusal(options[options.size() - 1 - unread.size()]);
  }
  return std::optional<Print>();
}

Result<> take(const Flag& flag, const std::string& value, const std::string& said_by,
              Choices& choices) {
  if (flag.take(value, choices)) return {};
  return usage(said_by + " wants " + std::string(flag.wants) + ", not '" + value + "'");
}

/// CLI11 could read the environment, but only this process's own, and would blame the flag for
/// what a variable says.
Result<> take_environment(const CLI::App& app, const std::vector<std::string>& environment,
                          Choices& choices) {
  for (const Flag& flag : flags()) {
    if (flag.environment.empty() || app.count(spelled(flag)) > 0) continue;
    const char* value = agent::find_variable(environment, flag.environment);
    if (value == nullptr || *value == '\0') continue;
    const Result<> taken = take(flag, value, std::string(flag.environment), choices);
    if (!taken) return taken.error();
  }
  return {};
}

Result<> take_options(const CLI::App& app, Choices& choices) {
  for (const CLI::Option* option : app.parse_order()) {
    const Flag& flag = *find_flag(option->get_name());
    const std::string value = flag.value.empty() ? "1" : option->results().back();
    const Result<> taken = take(flag, value, spelled(flag), choices);
    if (!taken) return taken.error();
  }
  return {};
}

Result<> settle_nodes(Choices& choices) {
  agent::JobSpec& job = choices.job;
  if (job.max_nodes > 1) {
    return usage("--nnodes " + choices.nodes +
                 " is not possible yet: this version runs on one node (--nnodes 1)");
  }
  if (job.node_rank.value_or(0) >= job.max_nodes) {
    return usage("--node_rank " + std::to_string(*job.node_rank) +
                 " is not one of this job's nodes: --nnodes 1 allows only 0");
  }
  if (choices.standalone) {
    job.master_addr = "127.0.0.1";
    job.master_port = 0;
  }
  return {};
}

/// How many workers, and which GPUs the node has for them.
Result<> settle_workers(Choices& choices, const Host& host) {
  agent::JobSpec& job = choices.job;
  const std::string& size = choices.local_size;
  const bool isolate = job.gpu_bind == agent::GpuBind::isolate;
  const char* visible = agent::find_variable(host.environment, kVisibleDevices);
  if (visible != nullptr) {
    job.devices = launcher::parse_visible_devices(visible);
  } else {
    const bool counts = isolate || size == "gpu" || size == "auto";
    job.devices =
        host.devices(counts ? launcher::DeviceSearch::exact : launcher::DeviceSearch::quick);
  }
  const int gpus = static_cast<int>(job.devices.size());
  const std::string because =
      visible ? std::string(" (") + kVisibleDevices + "=" + visible + ")" : "";

  if (size == "gpu" && gpus == 0) {
    return usage("--nproc_per_node gpu needs a GPU, and there is none on this host" + because);
  }
  if (size == "gpu" || (size == "auto" && gpus > 0)) {
    job.local_size = gpus;
  } else if (size == "cpu" || size == "auto") {
    job.local_size = host.cpus();
  } else {
    std::from_chars(size.data(), size.data() + size.size(), job.local_size);
  }
  if (isolate && gpus < job.local_size) {
    return usage(
        "--gpu_bind isolate needs at least one GPU per worker: " + std::to_string(job.local_size) +
        (job.local_size == 1 ? " worker, " : " workers, ") + std::to_string(gpus) +
        (gpus == 1 ? " GPU" : " GPUs") + " on this host" + because);
  }
  return {};
}

Result<> settle_prefix(Choices& choices) {
  if (choices.no_prefix) return {};
  if (choices.prefix) {
    Result<std::string> sample = launcher::expand_prefix(*choices.prefix, {});
    if (!sample) return std::move(sample.error()).in("--prefix");
    choices.job.prefix = std::move(choices.prefix);
  } else if (choices.job.local_size > 1) {
    choices.job.prefix = launcher::kDefaultPrefix;
  }
  return {};
}

Result<> settle_program(Choices& choices, std::vector<std::string> command, const Host& host) {
  if (command.empty()) {
    return usage("no program to run: ddprun [options] program [args...]; see ddprun --help");
  }
  Result<std::string> program = host.find_program(command.front());
  if (!program) return program.error();
  choices.job.program = std::move(*program);
  choices.job.command = std::move(command);
  return {};
}

}  // namespace

Result<Parsed> parse(std::span<const char* const> words, const Host& host) {
  CommandLine line = divide(words);
  CLI::App app;
  add_flags(app);
  Result<std::optional<Print>> answer = read_options(app, line.options);
  if (!answer) return answer.error();
  if (*answer) return Parsed(std::move(**answer));

  // The environment's say comes first, so that the command line's counts where two flags speak of
  // one thing.
  Choices choices;
  if (const Result<> taken = take_environment(app, host.environment, choices); !taken) {
    return taken.error();
  }
  if (const Result<> taken = take_options(app, choices); !taken) return taken.error();
  if (const Result<> nodes = settle_nodes(choices); !nodes) return nodes.error();
  if (const Result<> program = settle_program(choices, std::move(line.command), host); !program) {
    return program.error();
  }
  if (const Result<> workers = settle_workers(choices, host); !workers) return workers.error();
  if (const Result<> prefix = settle_prefix(choices); !prefix) return prefix.error();
  if (choices.dry_run) return Parsed(Print{dry_run_text(choices.job, host)});
  return Parsed(std::move(choices.job));
}

}  // namespace ddprun::cli
