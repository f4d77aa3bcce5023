// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job/job_spec.h"
#include "launcher/process/spawn.h"

namespace ddprun::agent {

/// The argv of the worker with this local rank: the job's command with JobSpec::local_rank_flag,
/// which has the same value as LOCAL_RANK. In the program's own arguments ${local_rank} becomes the
/// local rank, also under --virtual_local_rank, and $${local_rank} becomes ${local_rank}; any other
/// $ stays. Pure.
std::vector<std::string> worker_command(const JobSpec& job, int local_rank);

// The process of --preload: python imports modules, and then forks the workers of a node, round
// after round.

/// Its program, made of preload.py by cmake/embed_text.cmake.
extern const std::string_view kTemplateProgram;

/// The command of the template: the workers' python, and `inherited` with variables that keep an
/// import from starting threads or initializing CUDA. The workers' own environments do not have
/// those.
launcher::Command template_command(const JobSpec& job, const std::vector<std::string>& inherited);

/// "torch, numpy".
std::string preloaded_text(const JobSpec& job);

}  // namespace ddprun::agent
