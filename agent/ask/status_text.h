// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "agent/ask/status.h"

namespace ddprun::agent::ask {

/// How a status is shown.
struct StatusView {
  size_t rows = 24;   ///< at most so many lines; SIZE_MAX: all of them
  size_t width = 80;  ///< no line is longer
  /// An earlier status, since which the CPU use is counted; nullptr: since the workers began.
  const JobStatus* before = nullptr;
  bool coloured = false;  ///< whether lines of ranks with a problem are
};

/// The status as text for a terminal: what the job does, and a line for each rank, the worst first.
/// If there are more ranks than rows, the last line counts the others by state. Pure.
std::string status_text(const JobStatus& status, const StatusView& view);

/// A line of `ddprun ls`: job, pid of its ddprun here, state, ranks, time and program.
std::string list_line(const JobStatus& status, int pid);

/// The heading of these lines.
std::string list_heading();

}  // namespace ddprun::agent::ask
