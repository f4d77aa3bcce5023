// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>

#include "cli/flags.h"

namespace ddprun::cli {
namespace {

constexpr size_t kWidth = 88;
constexpr size_t kIndent = 6;

constexpr std::string_view kHead =
    "Usage: ddprun [options] [--] program [args...]\n"
    "       ddprun [options] -m module [args...]\n"
    "       ddprun serve [options]\n"
    "       ddprun doctor [options] [program [args...]]\n"
    "       ddprun secret [FILE]\n"
    "       ddprun ls | status | watch | logs | stacks | stop [--help]\n"
    "       ddprun manifest job|jobset|trainjob [options] [--] program [args...]\n"
    "\n"
    "Starts several copies of a program that train together, each with its rank in the\n"
    "environment, and monitors them: when one fails, the others are stopped, and all are\n"
    "restarted while restarts are left. No process outlives ddprun.\n"
    "On several nodes, run the same command on each, or one command with --hosts. ddprun serve\n"
    "runs only the rendezvous, so that any node may be lost; ddprun serve --help lists its\n"
    "options. ddprun ls, status, watch, logs, stacks and stop ask a running job. ddprun doctor "
    "looks\n"
    "whether a job with these options would work; see ddprun doctor --help.\n"
    "\n"
    "A program that ends in .py, or a module, is run by python3 -u; PYTHON_EXEC names another\n"
    "interpreter. Anything else is executed directly.\n"
    "Options end at the program. --flag value and --flag=value are the same, and so are dashes\n"
    "and underscores. Environment variables set defaults; flags override them.\n";

constexpr std::string_view kServeHead =
    "Usage: ddprun serve --rdzv_endpoint [HOST]:PORT [options]\n"
    "\n"
    "Runs only the rendezvous of a job, without workers. The nodes give this host as their\n"
    "--rdzv_endpoint, and any of them may be lost. Give --nnodes and --rdzv_id as on the nodes.\n"
    "It exits when the job ends, with the job's exit code. To run a program called serve, use\n"
    "ddprun ./serve or ddprun -- serve.\n";

constexpr std::string_view kDoctorHead =
    "Usage: ddprun doctor [options] [program [args...]]\n"
    "\n"
    "Looks whether a job with these options would work: on one node, or on several, with the same\n"
    "command on each, or one command with --hosts. Compares program, versions and settings of the\n"
    "nodes, tries the connections between them, and prints what is wrong and what to do. Runs no\n"
    "program. To run a program called doctor, use ddprun ./doctor or ddprun -- doctor.\n"
    "\n"
    "Exit code: 0, or 1 if there is a failure; a warning is none.\n";

constexpr std::string_view kSecretHelp =
    "Usage: ddprun secret [FILE]\n"
    "\n"
    "Makes a secret of 256 random bits for the --secret_file of a job's nodes: prints it, or\n"
    "writes it to a new file that only its owner may read.\n";

constexpr std::string_view kTail =
    "\n"
    "Exit code:\n"
    "  0 all workers succeeded; otherwise that of the worker that failed first (128 + n if signal\n"
    "  n killed it); 128 + n if signal n stopped ddprun; 1 the job had no place for this node;\n"
    "  2 wrong usage; 124 timed out; 125 ddprun itself failed, also: its port is in use; 126 the\n"
    "  program cannot be executed; 127 the program was not found\n";

std::string_view title(Group group) {
  switch (group) {
    case Group::program:
      return "Program";
    case Group::workers:
      return "Workers";
    case Group::rendezvous:
      return "Rendezvous";
    case Group::failures:
      return "Failures";
    case Group::output:
      return "Output";
    case Group::torchrun:
      return "Compatibility with torchrun";
    case Group::information:
      return "Information";
  }
  return {};
}

std::string_view head(Mode mode) {
  switch (mode) {
    case Mode::run:
      return kHead;
    case Mode::serve:
      return kServeHead;
    case Mode::doctor:
      return kDoctorHead;
  }
  return {};
}

std::string description(const Flag& flag) {
  std::string text(flag.help);
  const bool has_default = !flag.fallback.empty();
  if (!has_default && flag.environment.empty()) return text;
  text += " [";
  if (has_default) text.append("default: ").append(flag.fallback);
  if (!flag.environment.empty()) text.append(has_default ? "; " : "").append(flag.environment);
  if (!flag.second_environment.empty()) text.append(", ").append(flag.second_environment);
  return text += ']';
}

void append_wrapped(std::string& out, std::string_view text) {
  size_t column = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    if (column == 0 || column + 1 + word.size() > kWidth) {
      if (column != 0) out += '\n';
      out.append(kIndent, ' ');
      column = kIndent;
    } else {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
    text.remove_prefix(word.size() == text.size() ? word.size() : word.size() + 1);
  }
  out += '\n';
}

}  // namespace

std::string_view secret_help() {
  return kSecretHelp;
}

std::string help_text(Mode mode) {
  std::string text(head(mode));
  const Flag* last = nullptr;
  for (const Flag& flag : flags()) {
    if (!flag.in(mode)) continue;
    if (last == nullptr || last->group != flag.group) {
      text.append("\n").append(title(flag.group)).append(":\n");
    }
    text.append("  --").append(flag.name);
    if (!flag.alias.empty()) text.append(", --").append(flag.alias);
    if (flag.letter != '\0') text.append(", -") += flag.letter;
    if (flag.may_be_alone()) text.append("[=").append(flag.value).append("]");
    if (!flag.value.empty() && !flag.may_be_alone()) text.append(" ").append(flag.value);
    text += '\n';
    append_wrapped(text, description(flag));
    last = &flag;
  }
  return mode == Mode::doctor ? text : text.append(kTail);
}

}  // namespace ddprun::cli
