// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "ddp/export.h"

namespace ddp {

/// Calls `main` and returns its result. If the process dies instead, writes the cause to stderr and
/// to the file that TORCHELASTIC_ERROR_FILE names, which the launcher shows in its report:
///
///     int main(int argc, char** argv) { return ddp::record(train, argc, argv); }
///
/// - An exception that leaves `main`: its type, what(), the same of exceptions nested in it
///   (std::throw_with_nested), and the calls that led to where it was last thrown. Those calls are
///   left out for an error of kind peer_lost, which another rank caused. record returns 1.
/// - An exception that ends the process elsewhere (it leaves another thread, or a noexcept
///   function): the same, then std::terminate continues as usual.
/// - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT: the signal, the address, and the backtrace. Then
///   the handler that was set before record was called runs; by default the process dies of the
///   signal. A stack overflow is detected in the thread that called record; in other threads it is
///   reported as SIGSEGV if they have an alternate stack (sigaltstack(2)), else not at all.
///
/// Backtraces name the functions that the dynamic linker knows: if a program is linked with
/// ddp::ddp or with -rdynamic, all but static ones. Others have offsets for
/// `addr2line -Cfe PROGRAM +OFFSET`.
///
/// The file has the format of PyTorch's @record, and is written completely or not at all. No file
/// is written if the variable is not set or empty, or names something other than a file. Only the
/// first of several failures is recorded, and only in the process that called record, not in its
/// forks. No group is needed.
///
/// Uses SIGALRM while the process dies of a signal, so that it cannot hang. Call it once. Thread:
/// any; the signal handlers stay installed when it returns.
DDP_EXPORT int record(const std::function<int()>& main);

/// The same for a function with arguments, such as argc and argv.
template <class Main, class Arg, class... Args>
int record(Main&& main, Arg&& arg, Args&&... args) {
  const std::function<int()> call = [&]() -> int { return main(arg, args...); };
  return record(call);
}

}  // namespace ddp
