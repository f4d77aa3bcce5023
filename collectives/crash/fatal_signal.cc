// SPDX-License-Identifier: Apache-2.0
#include "collectives/crash/fatal_signal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <string_view>
#include <ucontext.h>
#include <unistd.h>

#include "collectives/crash/backtrace.h"
#include "collectives/crash/crash_report.h"

namespace ddp::internal {
namespace {

struct Fatal {
  int signal;
  std::string_view name;
};
constexpr std::array kFatal = std::to_array<Fatal>({{SIGSEGV, "SIGSEGV"},
                                                    {SIGBUS, "SIGBUS"},
                                                    {SIGFPE, "SIGFPE"},
                                                    {SIGILL, "SIGILL"},
                                                    {SIGABRT, "SIGABRT"}});

/// The text for a code of siginfo_t (sigaction(2)); the address follows the text.
struct Reason {
  int signal;
  int code;
  std::string_view text;
};
constexpr std::array kReasons = std::to_array<Reason>({
    {SIGSEGV, SEGV_MAPERR, "nothing is mapped at address "},
    {SIGSEGV, SEGV_ACCERR, "access not permitted at address "},
    {SIGBUS, BUS_ADRALN, "misaligned address "},
    {SIGBUS, BUS_ADRERR, "no memory behind address (is a mapped file shorter now?) "},
    {SIGFPE, FPE_INTDIV, "integer divided by zero at "},
    {SIGFPE, FPE_INTOVF, "integer overflow at "},
    {SIGFPE, FPE_FLTDIV, "floating-point division by zero at "},
    {SIGFPE, FPE_FLTINV, "invalid floating-point operation at "},
    {SIGILL, ILL_ILLOPC, "illegal instruction at "},
    {SIGILL, ILL_ILLOPN, "illegal instruction at "},
});

constexpr unsigned kReportSeconds = 10;  // a backtrace can hang on a lock of the dynamic linker
constexpr std::uintptr_t kGuardGap = 1UL << 20;  // below a stack: 256 pages, mmap(2), MAP_GROWSDOWN
constexpr std::uintptr_t kStackEnd = 64UL << 10;

alignas(16) std::array<std::byte, 256UL * 1024> alternate_stack;
std::uintptr_t stack_low = 0;  // lowest address of the stack whose overflow is detected; 0: none
std::array<struct sigaction, NSIG> previous_actions;  // by signal
volatile std::sig_atomic_t dying_of = 0;

bool is_stack_overflow(std::uintptr_t address) {
  return stack_low != 0 && address + kGuardGap >= stack_low && address < stack_low + kStackEnd;
}

void describe(int signal, const siginfo_t& info, FixedString& text) {
  for (const Fatal& fatal : kFatal) {
    if (fatal.signal == signal) text << fatal.name << ": ";
  }
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  if (info.si_code <= 0) {  // sent by kill(2) or the like
    if (info.si_pid != getpid()) {
      text << "sent by process " << static_cast<std::uint64_t>(info.si_pid);
    } else {
      text << (signal == SIGABRT ? "abort() was called" : "raised by the process itself");
    }
    return;
  }
  if (signal == SIGSEGV && is_stack_overflow(address)) {
    text << "stack overflow at address ";
    text.hex(address);
    return;
  }
  for (const Reason& reason : kReasons) {
    if (reason.signal != signal || reason.code != info.si_code) continue;
    text << reason.text;
    text.hex(address);
    return;
  }
  text << "code " << static_cast<std::uint64_t>(info.si_code) << " of sigaction(2), address ";
  text.hex(address);
}

void unblock(int signal) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, signal);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

void die(int signal) {
  struct sigaction fatal = {};
  fatal.sa_handler = SIG_DFL;
  sigaction(signal, &fatal, nullptr);
  unblock(signal);
  raise(signal);
}

/// Runs the action that was installed before, or dies of the signal.
void run_previous_action(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = previous_actions[static_cast<std::size_t>(signal)];
  sigaction(signal, &previous, nullptr);
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler != SIG_DFL) return previous.sa_handler(signal);
  die(signal);
}

void on_alarm(int) {
  die(dying_of);
}

/// Kills the process by `signal` after kReportSeconds, in case the report hangs.
void set_alarm(int signal, struct sigaction& previous) {
  dying_of = signal;
  struct sigaction end = {};
  end.sa_handler = on_alarm;
  end.sa_flags = SA_ONSTACK;
  sigaction(SIGALRM, &end, &previous);
  unblock(SIGALRM);
  alarm(kReportSeconds);
}

/// The instruction that the signal interrupted.
std::uintptr_t interrupted_instruction(void* context) {
  const mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#ifdef __x86_64__
  return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#else  // AArch64
  return machine.pc;
#endif
}

/// The number of innermost frames to skip: the signal handler's. Sanitizers add some.
int count_handler_frames(const Backtrace& backtrace, void* context) {
  const std::uintptr_t address = interrupted_instruction(context);
  const auto* const begin = backtrace.frames.begin();
  const auto* const end = begin + backtrace.count;
  const auto* const found = std::find_if(begin, end, [address](const void* frame) {
    return reinterpret_cast<std::uintptr_t>(frame) == address;
  });
  return found == end ? 0 : static_cast<int>(found - begin);
}

void report(const FixedString& message, const Backtrace& backtrace, void* context) {
  static FixedString traceback;
  traceback << "Traceback (most recent call last):\n";
  backtrace.append_to(traceback, count_handler_frames(backtrace, context));
  traceback << message.view() << "\n";
  write_crash_report(message.view(), traceback.view());
  print(traceback.view());
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (begin_crash_report()) {
    struct sigaction previous = {};
    set_alarm(signal, previous);
    static FixedString message;
    describe(signal, *info, message);
    write_crash_report(message.view(), "");  // in case walking a broken stack crashes
    static Backtrace backtrace;
    backtrace.capture();
    report(message, backtrace, context);
    alarm(0);
    sigaction(SIGALRM, &previous, nullptr);
    finish_crash_report();
  }
  wait_for_crash_report();
  errno = error;
  run_previous_action(signal, info, context);
}

void find_stack() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* low = nullptr;
  std::size_t size = 0;
  if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
    stack_low = reinterpret_cast<std::uintptr_t>(low);
  }
  pthread_attr_destroy(&attributes);
}

void add_alternate_stack() {
  stack_t stack = {};
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) == 0) return;
  stack = {};
  stack.ss_sp = alternate_stack.data();
  stack.ss_size = alternate_stack.size();
  sigaltstack(&stack, nullptr);
}

}  // namespace

void install_fatal_signal_handlers() {
  find_stack();
  add_alternate_stack();
  struct sigaction action = {};
  action.sa_sigaction = on_fatal_signal;
  // SA_NODEFER: a fatal signal during the report kills at once, instead of waiting for its end.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (const Fatal& fatal : kFatal) {
    struct sigaction& previous = previous_actions[static_cast<std::size_t>(fatal.signal)];
    sigaction(fatal.signal, nullptr, &previous);
    if (previous.sa_handler == SIG_IGN) continue;
    sigaction(fatal.signal, &action, nullptr);
  }
}

}  // namespace ddp::internal
