// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// The Kubernetes manifest of a job: a pod for each node, with ddprun as its first process, which
// engine/kubernetes.cc then recognises. Pure.

namespace ddprun::cli {

/// Which controller makes the pods.
enum class ManifestKind {
  job,       ///< an Indexed Job of Kubernetes, with a headless Service
  jobset,    ///< a JobSet of one such job
  trainjob,  ///< a TrainJob of Kubeflow's Trainer, with a TrainingRuntime
};

/// Where the pods find the job's secret.
inline constexpr std::string_view kSecretInPod = "/run/secrets/ddprun/secret";

struct Manifest {
  ManifestKind kind = ManifestKind::job;
  std::string name;
  std::string image;
  int min_nodes = 1;
  int max_nodes = 1;                   ///< that many pods
  int gpus = 0;                        ///< of each pod; 0: none are asked for
  std::string secret;                  ///< name of a Secret with a key "secret"; empty: none
  int kubernetes = 99;                 ///< the least of the minor versions that must know it
  std::chrono::seconds grace{30};      ///< between SIGTERM and SIGKILL
  std::vector<std::string> arguments;  ///< of ddprun: options, "--", program and its arguments
};

/// Checks names: they become host names and parts of YAML. Errors: usage.
Result<> check_manifest(const Manifest& manifest);

/// The text, a YAML document for each object. Only for what check_manifest accepts.
std::string manifest_text(const Manifest& manifest);

/// `text`, which is printable() as it is, as a YAML scalar in double quotes.
std::string yaml_text(std::string_view text);

}  // namespace ddprun::cli
