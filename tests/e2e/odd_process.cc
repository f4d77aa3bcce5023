// SPDX-License-Identifier: Apache-2.0
// odd_process KIND: a process that is hard to find or to end. It writes "KIND is ready" when it is.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string_view>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

const char* kind = "";

void report() {
  std::printf("%s is ready\n", kind);
  std::fflush(stdout);
}

[[noreturn]] void stay() {
  for (;;) pause();
}

void* outlive(void* main_thread) {
  pthread_join(*static_cast<pthread_t*>(main_thread), nullptr);
  report();
  stay();
}

/// Only another thread runs on; the kernel shows the process as a zombie.
void end_main_thread() {
  static pthread_t main_thread = pthread_self();
  pthread_t thread;
  pthread_create(&thread, nullptr, outlive, &main_thread);
  pthread_exit(nullptr);
}

/// The parent sleeps in the kernel until its child executes something.
void stay_in_vfork() {
  if (vfork() == 0) {  // NOLINT(bugprone-unsafe-functions): as old programs do
    const char text[] = "vfork is ready\n";
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0) _exit(1);
    for (;;) pause();
  }
}

/// Adopts a process that its child leaves behind.
void adopt() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (fork() == 0) {
    if (fork() == 0) {
      setsid();
      report();
      stay();
    }
    _exit(0);
  }
  stay();
}

/// Each process starts the next one and ends.
void run_away() {
  report();
  for (;;) {
    if (fork() != 0) _exit(0);
    setsid();
    usleep(20'000);
  }
}

void refuse_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  report();
  stay();
}

void stop() {
  report();
  raise(SIGSTOP);
  stay();
}

/// Its tracer, which never looks, holds it at its end.
void be_traced() {
  const pid_t child = fork();
  if (child == 0) stay();
  ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT);
  report();
  stay();
}

/// Holds another process until it is itself ended: at its last moment, or when it has ended.
void trace(const char* pid, long options) {
  if (ptrace(PTRACE_SEIZE, std::atoi(pid), nullptr, options) != 0) {
    std::perror("ptrace");
    std::exit(1);
  }
  report();
  stay();
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  kind = arguments[1];
  const std::string_view asked(kind);
  if (asked == "main_thread_gone") end_main_thread();
  if (asked == "vfork") stay_in_vfork();
  if (asked == "subreaper") adopt();
  if (asked == "runaway") run_away();
  if (asked == "refusing") refuse_signals();
  if (asked == "stopped") stop();
  if (asked == "traced") be_traced();
  if (asked == "tracer" && count == 3) trace(arguments[2], 0);
  if (asked == "tracer_of_exit" && count == 3) trace(arguments[2], PTRACE_O_TRACEEXIT);
  return 2;
}
