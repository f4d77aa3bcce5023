// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddp::internal {

/// Installs handlers that report SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT on stderr and in the
/// crash report before the process dies of them. Once, after prepare_crash_report(). The calling
/// thread gets an alternate signal stack if it has none, so that an overflow of its stack can be
/// reported.
void install_fatal_signal_handlers();

}  // namespace ddp::internal
