// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "engine/allocation.h"

// Pure.

namespace ddprun::engine {

/// "slurm", as --engine takes it.
std::string_view name_of(Engine engine);

/// nullopt: no such engine.
std::optional<Engine> parse_engine(std::string_view name);

/// The allocation that this process runs in. `wanted`: of this engine alone; else of the innermost.
/// nullopt: there is none. Errors: usage, where what the engine says cannot be true, as in a shell
/// that inherited the variables of an allocation elsewhere: one sentence, which names both sides.
Result<std::optional<Allocation>> detect(std::optional<Engine> wanted,
                                         const Surroundings& surroundings);

}  // namespace ddprun::engine
