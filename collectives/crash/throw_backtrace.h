// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/crash/backtrace.h"

namespace ddp::internal {

/// A handler `catch (const ThrowBacktrace&)` catches nothing. But the runtime asks it whether it
/// would catch an exception that no inner handler catches, before it unwinds the stack; it captures
/// the backtrace of the throw then.
class ThrowBacktrace {
  virtual void key();  // defined nowhere, so that throw_backtrace.cc can define the type_info
};

/// The backtrace of the last exception that reached such a handler.
const Backtrace& last_throw_backtrace();

}  // namespace ddp::internal
