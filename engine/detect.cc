// SPDX-License-Identifier: Apache-2.0
#include "engine/detect.h"

#include <algorithm>
#include <array>

namespace ddprun::engine {
namespace {

struct Row {
  Engine engine;
  std::string_view name;
  std::string_view variable;  ///< shows the engine; for messages
  Result<std::optional<Allocation>> (*detect)(const DetectionInput&);
};

/// Innermost first: Flux runs inside jobs of Slurm and LSF, Slurm inside Kubernetes' pods.
constexpr std::array kEngines = {
    Row{Engine::flux, "flux", "FLUX_JOB_ID or FLUX_ENCLOSING_ID", detect_flux},
    Row{Engine::slurm, "slurm", "SLURM_JOB_ID", detect_slurm},
    Row{Engine::pbs, "pbs", "PBS_JOBID", detect_pbs},
    Row{Engine::lsf, "lsf", "LSB_JOBID", detect_lsf},
    Row{Engine::sge, "sge", "PE_HOSTFILE", detect_sge},
    Row{Engine::kubernetes, "kubernetes",
        "KUBERNETES_SERVICE_HOST, with JOB_COMPLETION_INDEX or VC_TASK_INDEX,", detect_kubernetes},
};

const Row& row_of(Engine engine) {
  return *std::find_if(kEngines.begin(), kEngines.end(),
                       [engine](const Row& row) { return row.engine == engine; });
}

Result<std::optional<Allocation>> detect_in(const Row& row, const DetectionInput& input) {
  Result<std::optional<Allocation>> found = row.detect(input);
  if (!found) {
    return Error{found.error().code,
                 found.error().message + "; --engine none starts ddprun without the engine"};
  }
  if (*found) (*found)->engine = row.engine;
  return found;
}

}  // namespace

std::string_view name_of(Engine engine) {
  return row_of(engine).name;
}

std::optional<Engine> parse_engine(std::string_view name) {
  for (const Row& row : kEngines) {
    if (row.name == name) return row.engine;
  }
  return std::nullopt;
}

Result<std::optional<Allocation>> detect(std::optional<Engine> wanted,
                                         const DetectionInput& input) {
  if (wanted) {
    const Row& row = row_of(*wanted);
    Result<std::optional<Allocation>> found = detect_in(row, input);
    if (!found || *found) return found;
    return Error{Errc::usage, "--engine " + std::string(row.name) + ": " +
                                  std::string(row.variable) +
                                  " is not set, so this is not a job of it; leave --engine out"};
  }
  for (const Row& row : kEngines) {
    Result<std::optional<Allocation>> found = detect_in(row, input);
    if (!found || *found) return found;
  }
  return std::optional<Allocation>();
}

}  // namespace ddprun::engine
