// SPDX-License-Identifier: Apache-2.0
#include "base/error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <system_error>

namespace ddprun {

namespace {

std::string hint_for(int error_number) {
  rlimit limit = {};
  if (error_number != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return " (ulimit -n is " + std::to_string(limit.rlim_cur) + ": raise it)";
}

}  // namespace

Error os_error(const std::string& what, int error_number) {
  return {Errc::system,
          what + ": " + std::generic_category().message(error_number) + hint_for(error_number)};
}

void throw_exception_from_error(const Error& error, const boost::source_location& where) {
  std::fprintf(stderr, "ddprun: internal error at %s:%u: unchecked failure: %s\n",
               where.file_name(), static_cast<unsigned>(where.line()), error.message.c_str());
  std::abort();
}

}  // namespace ddprun
