// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/signal_masked_thread.h"

namespace ddp::internal {

using ddprun::signal_masked_thread;

}  // namespace ddp::internal
