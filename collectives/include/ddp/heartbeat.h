// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ddp/export.h"

namespace ddp {

/// Reports to the launcher that this rank makes progress. Call it once a step:
///
///     for (int step = 0; step < steps; ++step) {
///       train(step);
///       ddp::heartbeat(step);
///     }
///
/// ddprun uses it to detect that a job hangs, and shows the last `step` of each rank. It is sent as
/// WATCHDOG=1 and STATUS=step N in the protocol of sd_notify(3), so other supervisors understand
/// it, too. Does nothing if NOTIFY_SOCKET names no socket.
///
/// Never waits, and takes some 50 ns: at most one heartbeat a second is sent. No group is needed.
/// Thread: any; but a thread that sends heartbeats while the others hang hides the hang.
DDP_EXPORT void heartbeat(std::int64_t step);

}  // namespace ddp
