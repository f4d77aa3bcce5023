// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "agent/job/job_spec.h"

namespace ddprun::agent {

/// The user's command, without what ddprun puts before it, such as the path of python. Pure.

/// The name by which a user knows the job: its --rdzv_id, or without one its program, "train.py".
std::string job_name(const JobSpec& job);

/// The command for messages: its words with a space between them, cut and printable.
std::string command_text(const JobSpec& job);

/// A hash of its words, below 2^53.
std::uint64_t command_hash(const JobSpec& job);

}  // namespace ddprun::agent
