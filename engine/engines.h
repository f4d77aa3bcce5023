// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/error.h"
#include "engine/allocation.h"

// One function per engine; nullopt: its variables are not set. Errors: those of detect(). Pure.

namespace ddprun::engine {

Result<std::optional<Allocation>> detect_slurm(const Surroundings& surroundings);
Result<std::optional<Allocation>> detect_kubernetes(const Surroundings& surroundings);
Result<std::optional<Allocation>> detect_pbs(const Surroundings& surroundings);
Result<std::optional<Allocation>> detect_sge(const Surroundings& surroundings);
Result<std::optional<Allocation>> detect_lsf(const Surroundings& surroundings);
Result<std::optional<Allocation>> detect_flux(const Surroundings& surroundings);

}  // namespace ddprun::engine
