// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/job/job_spec.h"
#include "launcher/process/spawn.h"

// The process of --preload: python imports modules, and then forks the workers of a node, round
// after round. Pure.

namespace ddprun::agent {

/// Its program, made of preload.py by cmake/embed_text.cmake.
extern const std::string_view kTemplateProgram;

/// The command of the template: the workers' python, and `inherited` with variables that keep an
/// import from starting threads or initializing CUDA. The workers' own environments do not have
/// those.
launcher::Command template_command(const JobSpec& job, const std::vector<std::string>& inherited);

/// "torch, numpy".
std::string preloaded_text(const JobSpec& job);

}  // namespace ddprun::agent
