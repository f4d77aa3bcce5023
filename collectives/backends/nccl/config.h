// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>
#include <string>

#include "ddp/options.h"

namespace ddp::internal {

/// Throws ddp::Error of kind usage if a setting needs a later NCCL than the loaded one, of version
/// `loaded`, or than the one with whose header this was compiled: NCCL would ignore it.
void check_settings(const NcclOptions& options, int loaded);

/// NCCL's configuration of a non-blocking communicator. `options` must outlive it.
ncclConfig_t make_config(const NcclOptions& options);

/// How many ranks connect with one ncclUniqueId: the rank that makes it, and those after it.
int ranks_per_id(const NcclOptions& options, int size);

/// Returns "2.27.0" for 22700.
std::string name_nccl_version(int version);

}  // namespace ddp::internal
