// SPDX-License-Identifier: Apache-2.0
#include "agent/worker/worker_terminal.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.h"

namespace ddprun::agent {
namespace {

bool has_file(const launcher::StreamSink& sink) {
  return sink.file || sink.duplicates;
}

/// nullopt: the worker writes to a pipe. A log file should have what a program writes to files.
std::optional<launcher::WindowSize> window_of(const WorkerSetup::Worker& worker, bool of_stderr,
                                              Tty tty, const launcher::Output& output) {
  const launcher::StreamSink& sink = worker.sinks[of_stderr ? 1 : 0];
  if (tty == Tty::never) return std::nullopt;
  const auto window = output.window(of_stderr, worker.prefix);
  if (tty == Tty::always) return window.value_or(launcher::WindowSize());
  return sink.shown && !has_file(sink) ? window : std::nullopt;
}

/// Whether stdout and stderr share a terminal, as without ddprun: a prompt on stderr comes last.
bool has_one_terminal(const WorkerSetup::Worker& worker, const launcher::Output& output) {
  return is_shown_as_it_is(worker) && output.has_one_console() && worker.command.stdout_window &&
         worker.command.stderr_window && std::ranges::none_of(worker.sinks, has_file);
}

}  // namespace

bool is_shown_as_it_is(const WorkerSetup::Worker& worker) {
  return worker.alone && worker.prefix.empty() && !log::are_lines_relayed();
}

launcher::Command take_command(WorkerSetup::Worker& worker, Tty tty,
                               const launcher::Output& output) {
  worker.command.stdout_window = window_of(worker, false, tty, output);
  worker.command.stderr_window = window_of(worker, true, tty, output);
  worker.command.one_terminal = has_one_terminal(worker, output);
  return std::move(worker.command);
}

void report_missing_terminals(const std::vector<launcher::Child>& children) {
  const auto lacking = std::ranges::find_if(
      children, [](const auto& child) { return child.no_terminal.has_value(); });
  if (lacking == children.end()) return;
  log::warning(lacking->no_terminal->message +
               "; workers without one write to pipes (see kernel.pty.max; --tty never: all do)");
}

}  // namespace ddprun::agent
