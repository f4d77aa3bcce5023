// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

namespace ddp::internal {

/// The state of each rank of a group when a call of one of them times out. A status completes the
/// sentence "rank 3 is ...": "at #12 barrier", "in no call since #11 barrier". Pure.

/// Returns "rank 3 is at #1041 barrier, the others at #1042 all_reduce sum float32[262144]": the
/// minority first. `statuses` is indexed by the ranks that messages name, and not empty.
std::string compare_statuses(const std::map<int, std::string>& statuses);

/// The same if all have answered, there are two statuses, and one has fewer ranks; else empty. With
/// a third status, the minority may be the ranks ahead of the one that differs.
std::string name_fewest(const std::map<int, std::string>& statuses);

/// A status that another rank wrote, cut and escaped for a message.
std::string printable_status(const std::string& status);

}  // namespace ddp::internal
