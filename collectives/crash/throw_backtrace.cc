// SPDX-License-Identifier: Apache-2.0
#include "collectives/crash/throw_backtrace.h"

#include <typeinfo>

namespace ddp::internal {
namespace {

Backtrace last_throw;

}  // namespace

/// Exceptions are handled in two phases (Itanium C++ ABI, Exception Handling, 1.3), and only the
/// second unwinds the stack. In the first phase libstdc++ calls this virtual function of each
/// handler's type_info, to ask whether it catches the exception.
class CapturingTypeInfo : public std::type_info {
 public:
  CapturingTypeInfo() : std::type_info("ddp::internal::ThrowBacktrace") {}

  // NOLINTNEXTLINE(bugprone-reserved-identifier): libstdc++ calls it so
  bool __do_catch(const std::type_info*, void**, unsigned) const override {
    last_throw.capture();
    return false;
  }
};

// The type_info of class ThrowBacktrace, by its name in the ABI.
extern CapturingTypeInfo throw_backtrace __asm__("_ZTIN3ddp8internal14ThrowBacktraceE");
CapturingTypeInfo throw_backtrace;

const Backtrace& last_throw_backtrace() {
  return last_throw;
}

}  // namespace ddp::internal
