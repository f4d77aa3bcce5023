// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/ask/whole_status.h"
#include "agent/diagnosis/stacks.h"

namespace ddprun::agent {

/// The stacks of the whole job. Which ranks a node has is the master's word; why a node has not
/// answered is a note. Pure.
Stacks whole_stacks(const ask::NodeAnswers& answers);

}  // namespace ddprun::agent
