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
    "\n"
    "Starts several copies of a program that train together, each with its rank in the\n"
    "environment, and watches over them: when one fails the others are stopped, and all are\n"
    "started again while restarts are left. Nothing that was started survives ddprun.\n"
    "A job on several nodes: the same command on each. ddprun serve runs their rendezvous\n"
    "alone, so that any node may be lost; ddprun serve --help lists its options.\n"
    "\n"
    "A program that ends in .py, or a module, is run by python3 -u; PYTHON_EXEC names another\n"
    "interpreter. Every other program is executed.\n"
    "Options end at the program. --flag value and --flag=value mean the same, dashes and\n"
    "underscores too. An environment variable gives a flag its default.\n";

constexpr std::string_view kServeHead =
    "Usage: ddprun serve --rdzv_endpoint [HOST]:PORT [options]\n"
    "\n"
    "Runs the rendezvous of a job alone, without workers: its nodes name this place as their\n"
    "--rdzv_endpoint, and any of them may be lost. Give --nnodes and --rdzv_id as on the nodes.\n"
    "It ends when the job does, with the job's exit code. A program called serve is run as\n"
    "ddprun ./serve or ddprun -- serve.\n";

constexpr std::string_view kTail =
    "\n"
    "Exit code:\n"
    "  0 all workers succeeded; else that of the worker that failed first (128 + n when signal n\n"
    "  killed it); 128 + n when signal n stopped ddprun; 2 wrong usage; 124 timed out;\n"
    "  125 ddprun itself failed; 126 the program cannot be executed; 127 there is no such "
    "program\n";

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
      return "Taken for torchrun's sake";
    case Group::information:
      return "Information";
  }
  return {};
}

std::string about(const Flag& flag) {
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

std::string help_text(Mode mode) {
  std::string text(mode == Mode::run ? kHead : kServeHead);
  const Flag* before = nullptr;
  for (const Flag& flag : flags()) {
    if (!flag.in(mode)) continue;
    if (before == nullptr || before->group != flag.group) {
      text.append("\n").append(title(flag.group)).append(":\n");
    }
    text.append("  --").append(flag.name);
    if (!flag.alias.empty()) text.append(", --").append(flag.alias);
    if (flag.letter != '\0') text.append(", -") += flag.letter;
    if (!flag.value.empty()) text.append(" ").append(flag.value);
    text += '\n';
    append_wrapped(text, about(flag));
    before = &flag;
  }
  return text.append(kTail);
}

}  // namespace ddprun::cli
