// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddp::internal {

/// Raises this process's limit on descriptors (ulimit -n) to what a group of so many ranks needs,
/// if allowed: the usual 1,024 is too low for 500 ranks that all send to each other.
void allow_descriptors(int ranks) noexcept;

}  // namespace ddp::internal
