// SPDX-License-Identifier: Apache-2.0
#include "cli/ask/verbs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "agent/ask/log_piece.h"
#include "agent/ask/status_text.h"
#include "agent/diagnosis/stacks.h"
#include "base/blocking_io.h"
#include "base/colour.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/ask/job_socket.h"
#include "cli/line/flags.h"
#include "cli/line/verb_line.h"
#include "cli/manual/pages.h"

namespace ddprun::cli {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP};

launcher::TerminalSettings* settings = nullptr;  // for the signals' handlers

/// Whether this process reads the keys: if stdout is a pipe, a pager behind it does.
bool has_terminal() {
  return tcgetpgrp(STDIN_FILENO) == getpgrp() && isatty(STDOUT_FILENO) == 1;
}

void give_terminal_back(int signal);

void handle_signals() {
  for (const int signal : kEndingSignals) {
    if (std::signal(signal, give_terminal_back) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

/// Restores the terminal; the signal has its usual effect when this returns.
void give_terminal_back(int signal) {
  settings->suspend();
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void take_terminal_again(int /*signal*/) {
  settings->resume();
  handle_signals();
}

}  // namespace

WatchKeys::WatchKeys() {
  sigset_t size_changes;
  sigemptyset(&size_changes);
  sigaddset(&size_changes, SIGWINCH);
  pthread_sigmask(SIG_BLOCK, &size_changes, nullptr);
  resized_.reset(signalfd(-1, &size_changes, SFD_CLOEXEC | SFD_NONBLOCK));
  termios keys{};
  if (!has_terminal() || tcgetattr(STDIN_FILENO, &keys) != 0) return;
  settings = &users_;
  handle_signals();
  std::signal(SIGCONT, take_terminal_again);
  keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  tcsetattr(STDIN_FILENO, TCSANOW, &keys);
}

WatchKeys::~WatchKeys() {
  if (settings == nullptr) return;
  for (const int signal : kEndingSignals) std::signal(signal, SIG_DFL);
  std::signal(SIGCONT, SIG_DFL);
  settings = nullptr;
  users_.restore();
}

WatchKeys::Event WatchKeys::wait_until(std::chrono::steady_clock::time_point end) {
  for (;;) {
    const int left = poll_time(end);
    if (left == 0) return Event::none;
    // The kernel stops a process that reads a terminal of another process.
    const bool reads = settings != nullptr && has_terminal();
    std::array<pollfd, 2> ready = {{{resized_.get(), POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}}};
    if (poll(ready.data(), reads ? 2 : 1, left) <= 0) continue;
    signalfd_siginfo change{};
    if (read(resized_.get(), &change, sizeof change) == sizeof change) return Event::resized;
    char key = 0;
    const bool is_closed = ready[1].revents != 0 && ::read(STDIN_FILENO, &key, 1) <= 0;
    if (is_closed || key == 'q' || key == 'Q') return Event::quit;
  }
}

namespace {

using agent::ask::JobStatus;
using agent::ask::LogPiece;
using std::chrono::milliseconds;

constexpr milliseconds kAnswerLimit{20'000};
constexpr milliseconds kWatchPause{1'000};
constexpr int kWatchShare = 4;  // for a large job's master: the pause in answer times
constexpr milliseconds kFollowPause{300};
constexpr milliseconds kStopPause{50};
constexpr const char* kClearScreen = "\x1b[H\x1b[J";

int fail(const Error& error, int code = 1) {
  log::error(error.message);
  return code;
}

int print(const std::string& text) {
  const size_t count = std::fwrite(text.data(), 1, text.size(), stdout);
  const bool written = count == text.size() && std::fflush(stdout) == 0;
  return written ? 0 : fail(os_error("cannot write to stdout", errno), 125);
}

/// The terminal's size. If stdout is no terminal, there is room for all.
agent::ask::StatusView view_of(const VerbLine& line) {
  winsize size{};
  const bool is_terminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 1;
  agent::ask::StatusView view;
  view.rows = is_terminal && !line.has("--all") ? size.ws_row - 1U : SIZE_MAX;
  view.width = is_terminal && size.ws_col > 20 ? size.ws_col : 1000;
  view.coloured = wants_colour(STDOUT_FILENO);
  return view;
}

std::string name_in(const VerbLine& line, size_t at) {
  return at < line.names.size() ? line.names[at] : "";
}

Result<JobStatus> whole_status_of(const RunningJob& job) {
  const Result<std::string> body = ask_socket(job.socket.path, "GET", "/status", kAnswerLimit);
  if (!body) return body.error();
  return agent::ask::status_in(*body);
}

Result<LogPiece> log_piece_of(const RunningJob& job, const std::string& rank, std::uint64_t from) {
  const bool is_number = !rank.empty() && std::ranges::all_of(rank, [](unsigned char c) {
    return c >= '0' && c <= '9';
  });
  if (!is_number) return Error{Errc::usage, "a rank is a number, not '" + rank + "'"};
  const std::string target = "/logs/" + rank + "?from=" + std::to_string(from);
  const Result<std::string> body = ask_socket(job.socket.path, "GET", target, kAnswerLimit);
  if (!body) return body.error();
  return agent::ask::log_piece_in(*body);
}

int list_jobs(const VerbLine&) {
  std::string text;
  for (const RunningJob& job : running_jobs()) {
    text += job.problem.empty() ? agent::ask::list_line(job.status, job.socket.pid)
                                : std::to_string(job.socket.pid) + "  " + job.problem + "\n";
  }
  return text.empty() ? 0 : print(agent::ask::list_heading() + text);
}

/// Whether the next attempt may succeed, or show that the job has ended.
bool may_pass(const Error& error) {
  return error.code == Errc::timed_out || error.code == Errc::unreachable;
}

/// Shows the status again and again, until the job ends or the user has seen enough.
int watch(const VerbLine& line) {
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 0));
  if (!job) return fail(job.error());
  const bool is_terminal = isatty(STDOUT_FILENO) != 0;
  WatchKeys keys;
  std::optional<JobStatus> before, shown;
  const auto show = [&] {
    agent::ask::StatusView view = view_of(line);
    view.before = before ? &*before : nullptr;
    const std::string text = agent::ask::status_text(*shown, view);
    return print(is_terminal ? kClearScreen + text : text + "\n");
  };
  for (;;) {
    const auto asked = std::chrono::steady_clock::now();
    Result<JobStatus> status = whole_status_of(*job);
    if (!status && status.error().code == Errc::closed) return 0;
    if (!status && !may_pass(status.error())) return fail(status.error());
    if (status) {
      before = std::exchange(shown, std::move(*status));
      if (const int code = show(); code != 0) return code;
    }
    const auto now = std::chrono::steady_clock::now();
    const auto next =
        now + std::max<std::chrono::nanoseconds>(kWatchPause, kWatchShare * (now - asked));
    for (auto event = keys.wait_until(next); event != WatchKeys::Event::none;
         event = keys.wait_until(next)) {
      if (event == WatchKeys::Event::quit) return 0;
      if (const int code = shown && is_terminal ? show() : 0; code != 0) return code;
    }
  }
}

int show_status(const VerbLine& line) {
  if (line.has("--watch") && line.has("--json")) {
    return fail({Errc::usage, "--watch is for people, and --json for programs: give one"}, 2);
  }
  if (line.has("--watch")) return watch(line);
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 0));
  if (!job) return fail(job.error());
  if (line.has("--json")) {
    const Result<std::string> body = ask_socket(job->socket.path, "GET", "/status", kAnswerLimit);
    return body ? print(*body) : fail(body.error());
  }
  const Result<JobStatus> status = whole_status_of(*job);
  return status ? print(agent::ask::status_text(*status, view_of(line))) : fail(status.error());
}

int show_stacks(const VerbLine& line) {
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 0));
  if (!job) return fail(job.error());
  const std::string target = line.has("--native") ? "/stacks?native=1" : "/stacks";
  const Result<std::string> body = ask_socket(job->socket.path, "GET", target, kAnswerLimit);
  if (!body) return fail(body.error());
  if (line.has("--json")) return print(*body);
  const Result<agent::Stacks> stacks = agent::parse_stacks(*body);
  return stacks ? print(agent::stacks_text(*stacks, view_of(line).rows) + "\n")
                : fail(stacks.error());
}

/// Waits until the ddprun here has ended; this may take as long as its --shutdown_timeout. Asks it
/// again and again: its line to the master may break and lose the message.
int stop_job(const VerbLine& line) {
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 0));
  if (!job) return fail(job.error());
  const std::string& socket = job->socket.path;
  const Result<std::string> stopping = ask_socket(socket, "POST", "/stop", kAnswerLimit);
  if (!stopping) return fail(stopping.error());
  const JobStatus& status = job->status;
  const int code =
      print("stopping job " + printable(status.job) + ": " + count_text(status.world_size, "rank") +
            " on " + count_text(status.node_count, "node") + "\n");
  if (code != 0) return code;
  for (;;) {
    const auto still = ask_socket(socket, "POST", "/stop", kAnswerLimit);
    if (!still && still.error().code == Errc::closed) break;
    std::this_thread::sleep_for(kStopPause);
  }
  return print("stopped: its ddprun here, pid " + std::to_string(job->socket.pid) +
               ", has ended\n");
}

/// The text as it is printed: on a terminal, only text, lines and tabs; a progress line stays one.
std::string shown_log(const std::string& text) {
  if (isatty(STDOUT_FILENO) == 0) return text;
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\r', at), text.size());
    shown += printable(std::string_view(text).substr(at, end - at));
    if (end < text.size()) shown += '\r';
    at = end + 1;
  }
  return shown;
}

/// Whether a piece is the last one for now: a piece that is not full is. If a rank keeps writing,
/// kMostShown ends the log.
bool is_last(const LogPiece& piece, std::uint64_t shown) {
  constexpr std::uint64_t kMostShown = 512 * 1024;  // more than is kept, also as U+FFFD
  constexpr std::uint64_t kCutCharacter = 3;        // bytes left for the next piece
  return piece.next - piece.from < agent::ask::kMaxPiece - kCutCharacter || shown >= kMostShown;
}

int show_log(const VerbLine& line) {
  if (line.names.empty())
    return fail({Errc::usage, "ddprun logs needs a rank, as in ddprun logs 0"}, 2);
  const Result<RunningJob> job = choose_job(running_jobs(), name_in(line, 1));
  if (!job) return fail(job.error());
  std::uint64_t from = 0, shown = 0;
  int round = -1;
  for (;;) {
    const Result<LogPiece> piece = log_piece_of(*job, line.names[0], from);
    const bool follows = line.has("-f") && round >= 0;
    if (!piece && follows && piece.error().code == Errc::closed) return 0;  // the job has ended
    if (!piece && !follows) return fail(piece.error());
    if (!piece) {  // such as between two rounds
      std::this_thread::sleep_for(kFollowPause);
      continue;
    }
    const bool is_new = std::exchange(round, piece->round) != piece->round;
    if (is_new) {
      for (const std::string& file : piece->files)
        log::info("it writes to " + printable(file) + " itself");
      if (std::exchange(from, 0) > 0) continue;
    }
    if (const int code = print(shown_log(piece->text)); code != 0) return code;
    from = piece->next;
    shown += piece->text.size();
    if (!line.has("-f") && is_last(*piece, shown)) return 0;
    if (!piece->text.empty()) continue;
    std::this_thread::sleep_for(kFollowPause);
  }
}

using RunVerb = int (*)(const VerbLine& line);

/// The actions of the table in verb_line.cc.
RunVerb action_of(std::string_view verb) {
  if (verb == "ls") return list_jobs;
  if (verb == "status") return show_status;
  if (verb == "stacks") return show_stacks;
  if (verb == "watch") return watch;
  return verb == "logs" ? show_log : stop_job;
}

}  // namespace

bool is_verb(std::span<const std::string> words) {
  return !words.empty() && find_verb_text(words.front()) != nullptr;
}

int run_verb(std::span<const std::string> words) {
  const VerbText& verb = *find_verb_text(words.front());
  const auto rest = words.subspan(1);
  if (std::ranges::any_of(rest, asks_for_help)) {
    return print(plain_text(page_of(kVerbsPage)));
  }
  const Result<VerbLine> line = read_verb_line(verb, rest);
  return line ? action_of(verb.name)(*line) : fail(line.error(), 2);
}

}  // namespace ddprun::cli
