// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddp::internal {

/// Installs handlers that report SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT on stderr and in the
/// crash report before the process dies of them. Once, after prepare_crash_report(). If the calling
/// thread has no alternate signal stack, it gets one, so that an overflow of its stack can be
/// reported.
void install_fatal_signal_handlers();

}  // namespace ddp::internal
