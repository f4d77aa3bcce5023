// SPDX-License-Identifier: Apache-2.0
#include "cli/options.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/worker_env.h"
#include "cli/dry_run.h"
#include "cli/flags.h"
#include "cli/nearest.h"
#include "launcher/prefix.h"

namespace ddprun::cli {
namespace {

constexpr const char* kVisibleDevices = "CUDA_VISIBLE_DEVICES";

/// A flag and its value, and who said so: the flag or the environment variable.
struct Given {
  const Flag* flag;
  std::string value;
  std::string said_by;
};

struct CommandLine {
  std::vector<Given> given;  ///< each flag once, in the order in which they count
  std::vector<std::string> command;
  std::optional<std::string_view> question;  ///< kHelp or kVersion: the rest was not read
};

Error usage(std::string sentence) {
  return {Errc::usage, std::move(sentence)};
}

std::string spelled(const Flag& flag) {
  return "--" + std::string(flag.name);
}

/// The later word about a flag counts.
void give(std::vector<Given>& all, Given one) {
  std::erase_if(all, [&one](const Given& other) { return other.flag == one.flag; });
  all.push_back(std::move(one));
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

/// The environment's say comes first, so that the command line's counts.
std::vector<Given> from_environment(const std::vector<std::string>& environment) {
  std::vector<Given> given;
  for (const Flag& flag : flags()) {
    if (flag.environment.empty()) continue;
    const char* value = agent::find_variable(environment, flag.environment);
    if (value == nullptr || *value == '\0') continue;
    given.push_back({&flag, value, std::string(flag.environment)});
  }
  return given;
}

/// The value of the flag at words[at], which is in the same word or in the next; `at` moves to the
/// last word used.
Result<std::string> value_of(const Flag& flag, std::span<const char* const> words, size_t& at) {
  const std::string_view word = words[at];
  const size_t equals = word.find('=');
  if (flag.value.empty()) {
    if (equals == std::string_view::npos) return std::string("1");
    return usage(spelled(flag) + " takes no value, but got '" +
                 std::string(word.substr(equals + 1)) + "'");
  }
  if (equals != std::string_view::npos) return std::string(word.substr(equals + 1));
  const bool missing = at + 1 == words.size() || std::string_view(words[at + 1]) == "--" ||
                       find_flag(words[at + 1]) != nullptr;
  if (missing) return usage(spelled(flag) + " needs a value: " + std::string(flag.wants));
  return std::string(words[++at]);
}

Result<CommandLine> read_words(std::span<const char* const> words, const Host& host) {
  CommandLine line{from_environment(host.environment), {}, {}};
  size_t at = 0;
  for (; at < words.size(); ++at) {
    const std::string_view word = words[at];
    if (word == "--") {
      ++at;
      break;
    }
    if (!word.starts_with('-') || word == "-") break;
    const Flag* flag = find_flag(word);
    if (flag == nullptr) return unknown_flag(word);
    Result<std::string> value = value_of(*flag, words, at);
    if (!value) return value.error();
    if (flag->name == kHelp || flag->name == kVersion) {
      line.question = flag->name;
      return line;
    }
    give(line.given, {flag, std::move(*value), spelled(*flag)});
  }
  line.command.assign(words.begin() + static_cast<std::ptrdiff_t>(at), words.end());
  return line;
}

Result<Choices> take_all(const std::vector<Given>& given) {
  Choices choices;
  for (const Given& one : given) {
    if (one.flag->take(one.value, choices)) continue;
    return usage(one.said_by + " wants " + std::string(one.flag->wants) + ", not '" + one.value +
                 "'");
  }
  return choices;
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
  Result<CommandLine> line = read_words(words, host);
  if (!line) return line.error();
  if (line->question == kHelp) return Parsed(Print{help_text()});
  if (line->question == kVersion) return Parsed(Print{"ddprun " DDPRUN_VERSION "\n"});

  Result<Choices> choices = take_all(line->given);
  if (!choices) return choices.error();
  if (const Result<> nodes = settle_nodes(*choices); !nodes) return nodes.error();
  if (const Result<> program = settle_program(*choices, std::move(line->command), host); !program) {
    return program.error();
  }
  if (const Result<> workers = settle_workers(*choices, host); !workers) return workers.error();
  if (const Result<> prefix = settle_prefix(*choices); !prefix) return prefix.error();
  if (choices->dry_run) return Parsed(Print{dry_run_text(choices->job, host)});
  return Parsed(std::move(choices->job));
}

}  // namespace ddprun::cli
