// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ddprun::tests {

/// How many basic blocks this thread has entered so far, of the sources that CMakeLists.txt has
/// compiled to count them (and of the templates in them): the same each time, on any machine and in
/// any kind of build.
std::uint64_t steps();

}  // namespace ddprun::tests
