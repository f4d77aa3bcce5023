// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/doctor/facts.h"
#include "cli/doctor/finding.h"

// Findings about the GPUs of a node. Pure.

namespace ddprun::doctor {

/// A finding for each kind of fault, with the GPUs that have it. Without faults, a finding that all
/// is well; without known GPUs, none.
Findings judge_gpus(const Facts& facts);

}  // namespace ddprun::doctor
