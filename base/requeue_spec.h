// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace ddprun {

/// A job of a scheduler that is put back into its queue if it ends before its program is done
/// (--requeue); plain data.
struct RequeueSpec {
  std::string name;         ///< "slurm job 42"
  std::string id;           ///< the scheduler's: "42"
  int most = 0;             ///< times, in all
  int so_far = 0;           ///< times, by whomever
  int deadline_signal = 0;  ///< tells workers that the time is nearly over; 0: nothing does
  std::chrono::milliseconds notice{};  ///< so long before
};

}  // namespace ddprun
