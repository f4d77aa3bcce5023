// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <pthread.h>
#include <thread>
#include <utility>

namespace ddp::internal {

/// A thread that no signal is delivered to: the program's signals are for the program's threads.
/// What the thread itself does wrong, as reading a buffer that is gone, is told all the same.
template <class Work>
std::thread signal_masked_thread(Work work) {
  struct Blocked {
    sigset_t before;
    ~Blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
  } blocked;
  sigset_t signals;
  sigfillset(&signals);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&signals, own);
  pthread_sigmask(SIG_SETMASK, &signals, &blocked.before);
  return std::thread(std::move(work));
}

}  // namespace ddp::internal
