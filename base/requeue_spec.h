// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace ddprun {

/// A scheduler's job that is put back into its queue if it ends before its program is done
/// (--requeue). Plain data.
struct RequeueSpec {
  std::string name;         ///< "slurm job 42"
  std::string id;           ///< the scheduler's: "42"
  int most = 0;             ///< how many times at most
  int so_far = 0;           ///< how many times already, by whomever
  int deadline_signal = 0;  ///< tells workers that the time is nearly over; 0: no signal does
  std::chrono::milliseconds notice{};  ///< how long before the end of the time
};

}  // namespace ddprun
