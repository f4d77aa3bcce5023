// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <pthread.h>
#include <thread>
#include <utility>

namespace ddp::internal {

/// A thread that no signal is delivered to: the program's signals are for the program's threads.
template <class Work>
std::thread quiet_thread(Work work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(work));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace ddp::internal
