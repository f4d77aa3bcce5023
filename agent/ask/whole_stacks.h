// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/ask/whole_status.h"
#include "agent/diagnosis/stacks.h"

namespace ddprun::agent {

/// The stacks of the whole job. The master says which ranks a node has. If a node has not answered,
/// a note says why. Pure.
Stacks whole_stacks(const ask::NodeAnswers& answers);

}  // namespace ddprun::agent
