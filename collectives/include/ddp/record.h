// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "ddp/export.h"

namespace ddp {

/// Calls `main` and returns what it returns. Should it die instead, what it died of is told, on
/// stderr and in the file that TORCHELASTIC_ERROR_FILE names; a launcher shows it in its report:
///
///     int main(int argc, char** argv) { return ddp::record(train, argc, argv); }
///
/// - An exception that leaves `main`: its type, what(), the same of exceptions nested in it
///   (std::throw_with_nested), and the calls that led to where it was last thrown. record
///   returns 1.
/// - An exception that ends the process elsewhere (it leaves another thread, or a noexcept
///   function): the same, then std::terminate goes on as it would have.
/// - SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT: the signal, the address, and the calls that led
///   there. The process then dies of that signal, or whoever handled it before record was called
///   gets it. Stack overflow is told in the thread that called record; in other threads it is
///   like any SIGSEGV where they have an alternate stack (sigaltstack(2)), and not told where not.
///
/// The calls have names where the dynamic linker knows them: link programs with -rdynamic (CMake:
/// ENABLE_EXPORTS). Others are an offset for `addr2line -Cfe PROGRAM +OFFSET`.
///
/// The file has the form that PyTorch's @record gives it, and is there whole or not at all. Without
/// the variable, or when it is empty or names something other than a file, there is no file. Only
/// the first of several ends is recorded, and only in the process that called record: not in
/// children that it forked. No group has to be joined.
///
/// Uses SIGALRM while the process dies of a signal, so that it cannot hang there. Call it once.
/// Thread: any; the signal handlers stay in force when it returns.
DDP_EXPORT int record(const std::function<int()>& main);

/// The same for a function with arguments, such as argc and argv.
template <class Main, class Arg, class... Args>
int record(Main&& main, Arg&& arg, Args&&... args) {
  const std::function<int()> call = [&]() -> int { return main(arg, args...); };
  return record(call);
}

}  // namespace ddp
