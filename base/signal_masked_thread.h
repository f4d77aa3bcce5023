// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <pthread.h>
#include <thread>
#include <utility>

namespace ddprun {

/// Starts a thread that blocks signals, because these are for the program's own threads. It does
/// not block those that its own errors raise: SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT.
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

}  // namespace ddprun
