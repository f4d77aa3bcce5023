// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The ways in which schedulers write lists of hosts. Pure. Errors: usage, with the text that is
// wrong; the caller names the variable or the file.

namespace ddprun::engine {

using Hosts = std::vector<std::string>;

/// No list is longer: a few bytes such as n[0-999999999] must not fill the memory.
inline constexpr size_t kMostHosts = 1 << 17;

/// Slurm's and Flux's notation, "rack[0-1]node[08-10],login" (slurm.conf(5), RFC 29 of Flux): names
/// between commas, with any number of brackets in each; zeros at the front of a range's first
/// number give its width.
Result<Hosts> expand_host_list(std::string_view text);

/// Slurm's numbers of tasks, one for each node: "4(x2),3" is 4, 4, 3.
Result<std::vector<int>> expand_counts(std::string_view text);

/// One host a line, perhaps once for each process or slot (PBS's nodefile, LSF's hostfile): each
/// host once, in order.
Result<Hosts> hosts_of_lines(std::string_view text);

/// The hosts of SGE's hostfile, whose lines are "host slots queue processors".
Result<Hosts> hosts_of_table(std::string_view text);

/// "host1 4 host2 8", as LSB_MCPU_HOSTS has them.
Result<Hosts> hosts_of_pairs(std::string_view text);

/// Whether two names may be of one host: equal in any case, or one is the first label of the other
/// ("gpu-07", "gpu-07.cluster").
bool is_same_host(std::string_view a, std::string_view b);

}  // namespace ddprun::engine
