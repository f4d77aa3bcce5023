// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/flags.h"
#include "cli/values.h"

namespace ddprun::cli {

// What the table's rows do with a value that is more than one line. Pure; each takes a right value
// into `raw` and answers a wrong one as Flag::take does.

constexpr int kMost = std::numeric_limits<int>::max();

/// Takes a value that there is into `target`. Returns whether there is one.
template <class T, class Target>
bool put(std::optional<T> value, Target& target) {
  // NOLINTNEXTLINE(bugprone-optional-value-conversion): not every target is an optional
  if (value) target = std::move(*value);
  return value.has_value();
}

/// A switch, on or off.
bool set_switch(std::string_view value, bool& target);

/// A time, which goes into this member of the job; the second: one of at least kShortest.
template <auto kMember>
Taken set_time(std::string_view value, RawOptions& raw) {
  return put(parse_time(value), raw.job.*kMember);
}

template <auto kMember>
Taken set_some_time(std::string_view value, RawOptions& raw) {
  return put(parse_time(value, kShortest), raw.job.*kMember);
}

// Where the nodes meet.
Taken set_nodes(std::string_view value, RawOptions& raw);
Taken set_endpoint(std::string_view value, RawOptions& raw);
Taken set_master_port(std::string_view value, RawOptions& raw);
Taken set_run_id(std::string_view value, RawOptions& raw);
Taken set_backend(std::string_view value, RawOptions& raw);
Taken set_conf(std::string_view value, RawOptions& raw);
Taken set_store(std::string_view value, RawOptions& raw);
Taken set_restarts(std::string_view value, RawOptions& raw);  ///< N or N/WINDOW

// The workers and what they run.
Taken set_local_rank_style(std::string_view value, RawOptions& raw);
Taken set_local_size(std::string_view value, RawOptions& raw);
Taken set_gpu_bind(std::string_view value, RawOptions& raw);
Taken set_numa_binding(std::string_view value, RawOptions& raw);
Taken set_role(std::string_view value, RawOptions& raw);
Taken block_signals(std::string_view value, RawOptions& raw);

// Output.
Taken set_prefix(std::string_view value, RawOptions& raw);
Taken set_log_level(std::string_view value, RawOptions& raw);
Taken set_log_dir(std::string_view value, RawOptions& raw);
Taken set_events(std::string_view value, RawOptions& raw);

// What tunes torchrun's own Python: refused where it would change what happens.
Taken set_event_handler(std::string_view value, RawOptions& raw);
Taken refuse_logs_specs(std::string_view value, RawOptions& raw);
Taken set_run_path(std::string_view value, RawOptions& raw);
Taken set_start_method(std::string_view value, RawOptions& raw);

/// How set_numa_binding reads it.
std::string_view numa_binding_name(launcher::NumaBinding how);

/// For a flag that answers by itself.
Taken set_nothing(std::string_view value, RawOptions& raw);

}  // namespace ddprun::cli
