// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The formats in which schedulers write lists of hosts. Pure. Errors: usage, with the wrong text;
// the caller names the variable or the file.

namespace ddprun::engine {

using Hosts = std::vector<std::string>;

/// The longest list: a few bytes such as n[0-999999999] must not fill the memory.
inline constexpr size_t kMostHosts = 1 << 17;

/// Slurm's and Flux's notation, "rack[0-1]node[08-10],login" (slurm.conf(5), RFC 29 of Flux): names
/// between commas, each with any number of brackets. Zeros at the front of a range's first number
/// give its width.
Result<Hosts> expand_host_list(std::string_view text);

/// Slurm's numbers of tasks, one for each node: "4(x2),3" is 4, 4, 3.
Result<std::vector<int>> expand_counts(std::string_view text);

/// Lines with one host each (PBS's nodefile, LSF's hostfile), perhaps once for each process or
/// slot. Returns each host once, in order.
Result<Hosts> hosts_of_lines(std::string_view text);

/// The hosts of SGE's hostfile, whose lines are "host slots queue processors".
Result<Hosts> hosts_of_table(std::string_view text);

/// The hosts of "host1 4 host2 8", the format of LSB_MCPU_HOSTS.
Result<Hosts> hosts_of_pairs(std::string_view text);

/// Whether two names may mean the same host: they are equal, ignoring case, or one is the first
/// label of the other ("gpu-07", "gpu-07.cluster").
bool is_same_host(std::string_view a, std::string_view b);

}  // namespace ddprun::engine
