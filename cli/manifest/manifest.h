// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The flags of `ddprun manifest` besides the flags of the pods' ddprun. Pure.

// The Kubernetes manifest of a job: a pod for each node, with ddprun as its first process.
// engine/kubernetes.cc recognises such pods. Pure.

namespace ddprun::cli {

/// An option of the manifest itself; each has a value.
struct ManifestOption {
  std::string_view name;
  std::string_view value;
  std::string_view help;
};

inline constexpr auto kManifestOptions = std::to_array<ManifestOption>({
    {"--name", "NAME", "Name of the job: lower-case letters, digits and '-'."},
    {"--image", "IMAGE", "Image of the pods. It has ddprun in its PATH."},
    {"--secret", "NAME", "A Kubernetes Secret; its key \"secret\" is the secret of the job."},
    {"--kubernetes", "1.N",
     "The oldest version that has to take the manifest, from 1.25 on. Fields that it does not know "
     "are left out [default: no field is]."},
    {"--gpus", "N", "GPUs of each pod [default: --nproc_per_node]."},
});

/// The controller that makes the pods.
enum class ManifestKind {
  job,       ///< an Indexed Job of Kubernetes, with a headless Service
  jobset,    ///< a JobSet of one such job
  trainjob,  ///< a TrainJob of Kubeflow's Trainer, with a TrainingRuntime
};

/// A kind and its name, the first word.
struct KindName {
  std::string_view name;
  ManifestKind kind;
};

inline constexpr auto kManifestKinds =
    std::to_array<KindName>({{"job", ManifestKind::job},
                             {"jobset", ManifestKind::jobset},
                             {"trainjob", ManifestKind::trainjob}});

/// The file in which the pods find the job's secret.
inline constexpr std::string_view kSecretInPod = "/run/secrets/ddprun/secret";

struct Manifest {
  ManifestKind kind = ManifestKind::job;
  std::string name;
  std::string image;
  int min_nodes = 1;
  int max_nodes = 1;                   ///< the number of pods
  int gpus = 0;                        ///< of each pod; 0: it requests none
  std::string secret;                  ///< name of a Secret with a key "secret"; empty: none
  int kubernetes = 99;                 ///< the oldest minor version that has to take it
  std::chrono::seconds grace{30};      ///< between SIGTERM and SIGKILL
  std::vector<std::string> arguments;  ///< of ddprun: options, "--", program and its arguments
};

/// Checks names: they become host names and parts of YAML. Errors: usage.
Result<> check_manifest(const Manifest& manifest);

/// The text, a YAML document for each object. check_manifest must accept the manifest.
std::string manifest_text(const Manifest& manifest);

}  // namespace ddprun::cli
