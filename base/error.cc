// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace ddprun {

Error os_error(const std::string& what, int error_number) {
  return {Errc::system, what + ": " + std::generic_category().message(error_number)};
}

void throw_exception_from_error(const Error& error, const boost::source_location& where) {
  std::fprintf(stderr, "ddprun: internal error at %s:%u: unchecked failure: %s\n",
               where.file_name(), static_cast<unsigned>(where.line()), error.message.c_str());
  std::abort();
}

}  // namespace ddprun
