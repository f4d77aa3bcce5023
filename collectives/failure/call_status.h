// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddp::internal {

/// Where the ranks of a group are when one of them waited too long, in words. A rank's status
/// goes after "rank 3 is ": "at #12 barrier", "in no call since #11 barrier".
///
/// Pure: no store, no clock.

/// "rank 3 is at #1041 barrier, the others at #1042 all_reduce sum float32[262144]": the fewest
/// first. `statuses` are by rank, as messages name ranks; not empty.
std::string compare_statuses(const std::map<int, std::string>& statuses);

/// What another rank told, as much of it as belongs in a sentence.
std::string status_of(const std::string& told);

}  // namespace ddp::internal
