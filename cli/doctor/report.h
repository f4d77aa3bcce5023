// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/doctor/facts.h"

// The report of `ddprun doctor`. Pure.

namespace ddprun::doctor {

/// All findings about these nodes and the links between them: failures first, then warnings.
Findings examine(const std::vector<Facts>& nodes, const std::vector<Link>& links);

/// The endpoint of a job as a node sees it.
struct EndpointView {
  std::string host;  ///< as the user named it
  std::uint16_t port = 0;
  std::string address;   ///< of the name; empty: it has none
  std::string own_name;  ///< of this host
  int nodes = 1;
};

/// Findings about a rendezvous that failed with `error`.
Findings judge_rendezvous(const Error& error, const EndpointView& endpoint);

/// Whether a finding is a failure.
bool has_failure(const Findings& findings);

/// A line for each finding, with the remedy below, and a last line that counts them. Printable,
/// whatever the nodes sent.
std::string report_text(const Findings& findings, const std::vector<Facts>& nodes);

}  // namespace ddprun::doctor
