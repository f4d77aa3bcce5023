// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "engine/allocation.h"

// Pure.

namespace ddprun::engine {

/// The name that --engine takes: "slurm".
std::string_view name_of(Engine engine);

/// nullopt: no such engine.
std::optional<Engine> parse_engine(std::string_view name);

/// The allocation that this process runs in: that of `wanted`, or else of the innermost engine.
/// nullopt: there is none. Errors: usage (what the engine says cannot be true, as in a shell with
/// another allocation's variables), in one sentence that names both sides.
Result<std::optional<Allocation>> detect(std::optional<Engine> wanted, const DetectionInput& input);

// Each function looks for one engine; nullopt: its variables are not set. Errors as of detect().

Result<std::optional<Allocation>> detect_slurm(const DetectionInput& input);
Result<std::optional<Allocation>> detect_kubernetes(const DetectionInput& input);
Result<std::optional<Allocation>> detect_pbs(const DetectionInput& input);
Result<std::optional<Allocation>> detect_sge(const DetectionInput& input);
Result<std::optional<Allocation>> detect_lsf(const DetectionInput& input);
Result<std::optional<Allocation>> detect_flux(const DetectionInput& input);

}  // namespace ddprun::engine
