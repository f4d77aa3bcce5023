// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <limits>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/line/raw_options.h"
#include "cli/line/values.h"

namespace ddprun::cli {

/// The numbers of comma-separated names of signals, each once. A name is in either case, with or
/// without "SIG". Pure.
///
/// Errors: usage; the sentence follows the flag's name: "got the unknown signal 'SIGTREM'; did you
/// mean SIGTERM?". Signals that no process can catch, or that do not ask a process to end
/// (signal(7)), are errors, too.
Result<std::vector<int>> parse_signals(std::string_view text);

// Setters of the flag table (Flag::set) that take more than a line. Pure.

constexpr int kMost = std::numeric_limits<int>::max();

/// Sets this switch.
template <bool RawOptions::* kMember>
SetResult set_switch(std::string_view value, RawOptions& raw) {
  return assign(parse_switch(value), raw.*kMember);
}

template <bool agent::JobSpec::* kMember>
SetResult set_switch(std::string_view value, RawOptions& raw) {
  return assign(parse_switch(value), raw.job.*kMember);
}

/// Sets this member of the job to a duration.
template <auto kMember>
SetResult set_time(std::string_view value, RawOptions& raw) {
  return assign(parse_time(value), raw.job.*kMember);
}

/// Likewise, to a duration of at least kShortestTime.
template <auto kMember>
SetResult set_nonzero_time(std::string_view value, RawOptions& raw) {
  return assign(parse_time(value, kShortestTime), raw.job.*kMember);
}

// Rendezvous.
SetResult set_nodes(std::string_view value, RawOptions& raw);
SetResult set_endpoint(std::string_view value, RawOptions& raw);
SetResult set_master_port(std::string_view value, RawOptions& raw);
SetResult set_run_id(std::string_view value, RawOptions& raw);
SetResult set_backend(std::string_view value, RawOptions& raw);
SetResult set_conf(std::string_view value, RawOptions& raw);
SetResult set_hosts(std::string_view value, RawOptions& raw);
SetResult set_exported(std::string_view value, RawOptions& raw);
SetResult set_store(std::string_view value, RawOptions& raw);
SetResult set_progress_pattern(std::string_view value, RawOptions& raw);
SetResult set_restarts(std::string_view value, RawOptions& raw);  ///< N or N/WINDOW

// The workers and their program.
SetResult set_local_rank_style(std::string_view value, RawOptions& raw);
SetResult set_local_size(std::string_view value, RawOptions& raw);
SetResult set_gpu_bind(std::string_view value, RawOptions& raw);
SetResult set_numa_binding(std::string_view value, RawOptions& raw);
SetResult set_mpi(std::string_view value, RawOptions& raw);
SetResult set_role(std::string_view value, RawOptions& raw);
SetResult set_signals(std::string_view value, RawOptions& raw);

// The scheduler's part at the job's end.
SetResult set_deadline_signal(std::string_view value, RawOptions& raw);  ///< SIGNAL[@TIME], none

// Output.
SetResult set_preload(std::string_view value, RawOptions& raw);
SetResult set_prefix(std::string_view value, RawOptions& raw);
SetResult set_tty(std::string_view value, RawOptions& raw);
SetResult set_colour_choice(std::string_view value, RawOptions& raw);
SetResult set_log_level(std::string_view value, RawOptions& raw);
SetResult set_log_format(std::string_view value, RawOptions& raw);
SetResult set_quiet(std::string_view value, RawOptions& raw);
SetResult set_log_dir(std::string_view value, RawOptions& raw);
SetResult set_events(std::string_view value, RawOptions& raw);
SetResult set_web(std::string_view value, RawOptions& raw);

// Flags that tune torchrun's own Python. They refuse values that would change what happens.
SetResult set_event_handler(std::string_view value, RawOptions& raw);
SetResult set_logs_specs(std::string_view value, RawOptions& raw);
SetResult set_start_method(std::string_view value, RawOptions& raw);

/// The setter of flags that print something: they have no value.
SetResult set_nothing(std::string_view value, RawOptions& raw);

/// The value of --numa_binding that means `how`.
std::string_view numa_binding_name(launcher::NumaBinding how);

}  // namespace ddprun::cli
