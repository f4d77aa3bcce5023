// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

namespace ddp::internal {

/// Allocates zeros, aligned for vector instructions, private to this process. Throws
/// std::bad_alloc.
std::shared_ptr<void> allocate_on_host(std::size_t bytes);

}  // namespace ddp::internal
