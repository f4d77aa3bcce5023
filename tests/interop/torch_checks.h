// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "ddp/process_group.h"

/// Throws std::runtime_error, or what ddp threw, if ddp/torch.h or ddp/dlpack.h does not do what
/// its words promise. Every rank calls it.
void check_torch(ddp::ProcessGroup& group, at::Device device);
