// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "agent/job_spec.h"

namespace ddprun::agent {

/// The user's command, which is the same on every node of a job, unlike the path of python. Pure.

/// For people: its words with a space between them, cut and printable.
std::string command_text(const JobSpec& job);

/// The same number for the same words, below 2^53.
std::uint64_t command_hash(const JobSpec& job);

}  // namespace ddprun::agent
