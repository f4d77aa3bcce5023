// SPDX-License-Identifier: Apache-2.0
#include "cli/line/verb_line.h"

#include <algorithm>
#include <array>

namespace ddprun::cli {
namespace {

constexpr auto kVerbTexts = std::to_array<VerbText>({
    {"ls", "", "", 0, "lists the jobs of this user on this host."},
    {"status", "[JOB] [--all] [--watch | --json]", "--json --all --watch ", 1,
     "shows what a job does, the worst ranks first, as many as fit the terminal; --all: all of "
     "them."},
    {"stacks", "[JOB] [--native] [--json]", "--native --json ", 1,
     "shows where the workers are; --native: with calls of C and C++ below those of Python."},
    {"watch", "[JOB] [--all]", "--all ", 1,
     "shows the status, updated each second, as status --watch does, until q is typed."},
    {"logs", "RANK [JOB] [-f]", "-f ", 2, "shows the end of a rank's output; -f: follows it."},
    {"stop", "[JOB]", "", 1, "stops a whole job, on all its nodes, as SIGTERM does."},
});

}  // namespace

std::span<const VerbText> verb_texts() {
  return kVerbTexts;
}

const VerbText* find_verb_text(std::string_view name) {
  const auto* const found = std::ranges::find(kVerbTexts, name, &VerbText::name);
  return found == kVerbTexts.end() ? nullptr : found;
}

bool VerbLine::has(std::string_view option) const {
  return std::ranges::find(options, option) != options.end();
}

Result<VerbLine> read_verb_line(const VerbText& verb, std::span<const std::string> words) {
  VerbLine line;
  for (const std::string& word : words) {
    const bool is_option = word.starts_with('-') && word.size() > 1;
    const bool is_known = verb.options.find(word + " ") != std::string_view::npos;
    if (!is_option && line.names.size() < verb.most_names) {
      line.names.push_back(word);
    } else if (is_option && is_known) {
      line.options.push_back(word);
    } else {
      const std::string name(verb.name);
      return Error{Errc::usage, "ddprun " + name + " does not take '" + word + "'; see ddprun " +
                                    name + " --help; a program called " + name +
                                    " is run as ddprun ./" + name + " or ddprun -- " + name};
    }
  }
  return line;
}

}  // namespace ddprun::cli
