// SPDX-License-Identifier: Apache-2.0
#include "cli/verbs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

#include "agent/ask/status_text.h"
#include "agent/stacks.h"
#include "base/log.h"
#include "cli/job_socket.h"

namespace ddprun::cli {
namespace {

using agent::ask::JobStatus;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerLimit{20'000};

/// What follows a verb.
struct VerbLine {
  std::vector<std::string> options;  ///< "--json"
  std::vector<std::string> names;

  bool has(std::string_view option) const {
    return std::ranges::find(options, option) != options.end();
  }
};

struct Verb {
  std::string_view name;
  std::string_view options;  ///< with a space after each
  size_t most_names;
  std::string_view help;
  int (*run)(const VerbLine& line);
};

int fail(const Error& error, int code = 1) {
  log::error(error.message);
  return code;
}

int print(const std::string& text) {
  const bool written = std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  return written ? 0 : fail(os_error("cannot write to stdout", errno), 125);
}

/// The terminal's size; where stdout is none there is room for all.
agent::ask::StatusView view_of(const VerbLine& line) {
  winsize size{};
  const bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
  agent::ask::StatusView view;
  view.rows = is_terminal && !line.has("--all") ? size.ws_row - 1U : SIZE_MAX;
  view.width = is_terminal && size.ws_col > 20 ? size.ws_col : 1000;
  return view;
}

std::string name_in(const VerbLine& line, size_t at) {
  return at < line.names.size() ? line.names[at] : "";
}

int list_jobs(const VerbLine&) {
  std::string text;
  for (const RunningJob& job : running_jobs()) {
    text += job.problem.empty() ? agent::ask::list_line(job.status, job.socket.pid)
                                : std::to_string(job.socket.pid) + "  " + job.problem + "\n";
  }
  return text.empty() ? 0 : print(agent::ask::list_heading() + text);
}

int show_status(const VerbLine& line) {
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 0));
  if (!job) return fail(job.error());
  const Result<std::string> body = ask_socket(job->socket.path, "GET", "/status", kAnswerLimit);
  if (!body) return fail(body.error());
  if (line.has("--json")) return print(*body);
  const Result<JobStatus> status = agent::ask::status_in(*body);
  return status ? print(agent::ask::status_text(*status, view_of(line))) : fail(status.error());
}

int show_stacks(const VerbLine& line) {
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 0));
  if (!job) return fail(job.error());
  const std::string target = line.has("--native") ? "/stacks?native" : "/stacks";
  const Result<std::string> body = ask_socket(job->socket.path, "GET", target, kAnswerLimit);
  if (!body) return fail(body.error());
  if (line.has("--json")) return print(*body);
  const Result<agent::Stacks> stacks = agent::parse_stacks(*body);
  return stacks ? print(agent::stacks_text(*stacks, view_of(line).rows) + "\n")
                : fail(stacks.error());
}

constexpr std::array kVerbs = {
    Verb{"ls", "", 0, "ls                                lists the jobs of this user on this host",
         list_jobs},
    Verb{"status", "--json --all ", 1,
         "status [JOB] [--all] [--json]     shows what a job does, the worst ranks first",
         show_status},
    Verb{"stacks", "--native --json ", 1,
         "stacks [JOB] [--native] [--json]  shows where the workers are; --native: also calls of\n"
         "                                           C and C++ below those of Python",
         show_stacks},
};

const Verb* find_verb(std::span<const std::string> words) {
  if (words.empty()) return nullptr;
  const auto* const found = std::ranges::find(kVerbs, words.front(), &Verb::name);
  return found == kVerbs.end() ? nullptr : found;
}

std::string help() {
  std::string text = "Usage:\n";
  for (const Verb& verb : kVerbs) text.append("  ddprun ").append(verb.help).append("\n");
  return text +
         "\nJOB is a job's --rdzv_id, or the pid of its ddprun; it may be left out where only one\n"
         "runs. A program of such a name is run as ddprun ./NAME or ddprun -- NAME.\n";
}

/// Errors: usage.
Result<VerbLine> read_line(const Verb& verb, std::span<const std::string> words) {
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

}  // namespace

bool is_verb(std::span<const std::string> words) {
  return find_verb(words) != nullptr;
}

int run_verb(std::span<const std::string> words) {
  const Verb& verb = *find_verb(words);
  const auto rest = words.subspan(1);
  if (std::ranges::find(rest, "--help") != rest.end()) return print(help());
  const Result<VerbLine> line = read_line(verb, rest);
  return line ? verb.run(*line) : fail(line.error(), 2);
}

}  // namespace ddprun::cli
