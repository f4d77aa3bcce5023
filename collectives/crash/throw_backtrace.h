// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/crash/crash_report.h"

namespace ddp::internal {

/// A handler `catch (const ThrowBacktrace&)` catches nothing. But it is asked whether it would,
/// before the stack of an exception that nobody further in handles is unwound: it keeps the calls
/// that led to the throw.
class ThrowBacktrace {
  virtual void key();  // defined nowhere, so the type's description is what throw_backtrace.cc says
};

/// Those of the last exception that came to such a handler.
const Calls& calls_to_throw();

}  // namespace ddp::internal
