// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "ddp/communication_hook.h"
#include "ddp/export.h"
#include "ddp/process_group.h"

namespace ddp {

/// Sends float32 and float64 gradients as float16: half of the traffic, with 11 significant bits;
/// from 65,520 on they become infinite. Averages gradients of 16 bits as they are. The group, which
/// may be moved, must outlive the hook. Errors of the hook: usage (gradients on a device).
DDP_EXPORT CommunicationHook fp16_compress(ProcessGroup& group);

/// The same with bfloat16: 8 significant bits, and the range of float32.
DDP_EXPORT CommunicationHook bf16_compress(ProcessGroup& group);

/// Settings of power_sgd(); the names of torch.distributed's PowerSGDState.
struct PowerSgdOptions {
  /// The number of rows of each parameter, by parameter: it is a matrix of so many rows, one after
  /// the other. A parameter without a number, or with 0 or 1, is averaged exactly.
  std::vector<std::size_t> rows = {};

  /// The rank of the matrices that approximate gradients; at least 1.
  std::size_t matrix_approximation_rank = 1;

  /// How often each gradient is averaged exactly before it is approximated: the first passes of a
  /// training change parameters much.
  std::size_t start_iter = 1000;
};

/// PowerSGD (Vogels et al., NeurIPS 2019): sends a gradient of n by m elements as two matrices of
/// (n + m) * rank elements. This rank adds what the approximation leaves out to its next gradient
/// (error feedback), and each approximation begins with the one before (warm start). Compresses
/// float32 matrices that become less than half as large; averages others exactly. Keeps a copy of
/// each compressed gradient. After a gradient that is not finite, no later one is. Use one hook for
/// each model. The group, which may be moved, must outlive it. Errors: usage (rank 0); of the hook:
/// usage (gradients on a device, a parameter of which `rows` is no divisor).
DDP_EXPORT CommunicationHook power_sgd(ProcessGroup& group, PowerSgdOptions options);

}  // namespace ddp
