// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ddp::internal {

/// From here on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT are told in the death note before the
/// process dies of them. Call it once, after prepare_crash_report; the calling thread gets an
/// alternate signal stack if it has none, so that it can tell of its stack's overflow.
void tell_fatal_signals();

}  // namespace ddp::internal
