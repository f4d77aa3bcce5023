// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/crash/backtrace.h"

namespace ddp::internal {

/// A handler `catch (const ThrowBacktrace&)` catches nothing. If no inner handler catches an
/// exception, the runtime asks this handler before it unwinds the stack. Then it captures the
/// backtrace of the throw.
class ThrowBacktrace {
  virtual void key();  // defined nowhere, so that throw_backtrace.cc can define the type_info
};

/// The backtrace of the last exception that reached such a handler.
const Backtrace& last_throw_backtrace();

}  // namespace ddp::internal
