// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <pthread.h>
#include <sys/mman.h>
#include <system_error>
#include <thread>
#include <utility>

#include "base/signal_masked_thread.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Whether there is room for the stack of one more thread. If not, no thread can be started for
/// that reason, whatever the error says.
inline bool has_memory_for_stack() {
  pthread_attr_t attributes;
  std::size_t bytes = 0;
  if (::pthread_getattr_default_np(&attributes) != 0) return true;
  ::pthread_attr_getstacksize(&attributes, &bytes);
  ::pthread_attr_destroy(&attributes);
  void* const room = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) ::munmap(room, bytes);
  return room != MAP_FAILED;
}

/// Starts a thread as ddprun does. Throws ddp::Error of kind system if none can be made.
template <class Work>
std::thread signal_masked_thread(Work work) {
  try {
    return ddprun::signal_masked_thread(std::move(work));
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::system,
                "ddp: cannot start a thread: " + error.code().message() +
                    (has_memory_for_stack()
                         ? ": this user or container may have no more (ulimit -u, pids.max)"
                         : ": there is no memory for its stack (ulimit -v)"));
  }
}

}  // namespace ddp::internal
