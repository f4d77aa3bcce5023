// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "cli/manifest/manifest.h"

// The flags of `ddprun manifest` besides the flags of the pods' ddprun. Pure.

namespace ddprun::cli {

/// An option of the manifest itself; each has a value.
struct ManifestOption {
  std::string_view name;
  std::string_view value;
  std::string_view help;
};

constexpr auto kManifestOptions = std::to_array<ManifestOption>({
    {"--name", "NAME", "Name of the job: lower-case letters, digits and '-'."},
    {"--image", "IMAGE", "Image of the pods. It has ddprun in its PATH."},
    {"--secret", "NAME", "A Kubernetes Secret; its key \"secret\" is the secret of the job."},
    {"--kubernetes", "1.N",
     "The oldest version that has to take it, from 1.25 on: fields that it does not know are left "
     "out [default: none is]."},
    {"--gpus", "N", "GPUs of each pod [default: --nproc_per_node]."},
});

/// A kind and its name, the first word.
struct KindName {
  std::string_view name;
  ManifestKind kind;
};

constexpr auto kManifestKinds = std::to_array<KindName>({{"job", ManifestKind::job},
                                                         {"jobset", ManifestKind::jobset},
                                                         {"trainjob", ManifestKind::trainjob}});

}  // namespace ddprun::cli
