// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/async_jobs.h"

namespace ddprun::agent {

/// The path of a library of MPI in the text of /proc/PID/maps; empty: there is none.
std::string mpi_library_in(std::string_view maps);

/// The warning for a job whose ranks MPI does not connect. `who_uses_mpi` is "train.py imports
/// mpi4py".
std::string mpi_hint(const std::string& who_uses_mpi);

/// Warns once if a worker of a job whose ranks MPI does not connect has loaded MPI, which the
/// program's file did not show.
///
/// Thread: the executor's.
class MpiHint {
 public:
  explicit MpiHint(const boost::asio::any_io_executor& executor)
      : timer_(executor), files_(executor) {}

  /// Looks at this worker, some seconds from now.
  void begin(int rank, pid_t pid);

  /// The round's workers are to end.
  void cancel() { timer_.cancel(); }

 private:
  void look(int rank, pid_t pid);

  boost::asio::steady_timer timer_;
  AsyncJobs files_;
  bool has_warned_ = false;
};

}  // namespace ddprun::agent
