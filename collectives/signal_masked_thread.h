// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "base/signal_masked_thread.h"
#include "ddp/error.h"

namespace ddp::internal {

/// As ddprun's. Throws ddp::Error of kind system if there is no thread to be had.
template <class Work>
std::thread signal_masked_thread(Work work) {
  try {
    return ddprun::signal_masked_thread(std::move(work));
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::system,
                "ddp: cannot start a thread: " + error.code().message() +
                    ": this user or container may have no more (ulimit -u, pids.max)");
  }
}

}  // namespace ddp::internal
