// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace ddp::internal {

/// Raises this process's limit on descriptors (ulimit -n) to what a group of so many ranks needs,
/// if allowed: the usual 1,024 is too low for 500 ranks that all send to each other.
void allow_descriptors(int ranks) noexcept;

/// Whether this process can have so many more descriptors now.
bool has_descriptors(std::size_t count);

}  // namespace ddp::internal
