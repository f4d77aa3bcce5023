// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "collectives/call/task.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Backend::check() of a backend that reaches host memory only. Messages name this rank `rank`.
inline void check_in_host_memory(const Task& task, std::string_view backend, int rank) {
  if (!task.on_device) return;
  throw Error(ErrorKind::usage,
              "ddp: rank " + std::to_string(rank) + ": " + name(task.operation) + ": backend " +
                  std::string(backend) +
                  " moves data in host memory only, and this buffer is on a device: use "
                  "init_process_group({.backend = \"nccl\"}), or \"mpi\"");
}

}  // namespace ddp::internal
