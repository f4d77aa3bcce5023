// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddp::internal {

/// Raises this process's limit on descriptors (ulimit -n) as far as it may, and as a group of so
/// many ranks needs: the usual one of 1,024 is too low for 500 ranks that all send to each other.
void allow_descriptors(int ranks) noexcept;

}  // namespace ddp::internal
