// SPDX-License-Identifier: Apache-2.0
#include "collectives/crash/throw_backtrace.h"

#include <typeinfo>

namespace ddp::internal {
namespace {

Calls calls;

}  // namespace

/// Unwinding has two phases (Itanium C++ ABI, Exception Handling, 1.3), and only the second one
/// takes the stack down. In the first the personality routine of libstdc++ asks the type_info of
/// each handler, by this virtual function, whether it takes the exception.
class Description : public std::type_info {
 public:
  Description() : std::type_info("ddp::internal::ThrowBacktrace") {}

  // NOLINTNEXTLINE(bugprone-reserved-identifier): libstdc++ calls it so
  bool __do_catch(const std::type_info*, void**, unsigned) const override {
    calls.take();
    return false;
  }
};

// The description of class ThrowBacktrace, by its name in the ABI.
extern Description throw_backtrace __asm__("_ZTIN3ddp8internal14ThrowBacktraceE");
Description throw_backtrace;

const Calls& calls_to_throw() {
  return calls;
}

}  // namespace ddp::internal
