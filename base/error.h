// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <boost/system/result.hpp>

namespace ddprun {

/// What the caller should do next; the message says what happened.
enum class Errc {
  usage,           ///< bad flag, environment or file: tell the user, never retry
  not_found,       ///< the program to run does not exist
  not_executable,  ///< the program to run exists but cannot be executed
  system,          ///< an operating-system call failed
  unreachable,     ///< the peer is gone or never answered
  timed_out,       ///< a deadline passed
  closed,          ///< the job is over: joining again is pointless
  protocol,        ///< the peer sent bytes we do not understand
};

/// A failure someone can act on: one kind, one line of text without a full stop.
struct Error {
  Errc code;
  std::string message;

  /// The same failure seen by a layer that knows more: "`context`: message".
  Error in(const std::string& context) && { return {code, context + ": " + std::move(message)}; }
};

/// A value, or the Error that kept us from having one. A plain `if (!r) return r.error();`
/// passes it on.
template <class T = void>
using Result = boost::system::result<T, Error>;

/// `what` followed by the text of `error_number` (an errno), as Errc::system. Where the process has
/// too many open files, it names the limit.
Error os_error(const std::string& what, int error_number);

/// Reached only when somebody takes the value of a Result that holds an Error, which is a bug of
/// ours: ends the process with the message.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location&);

}  // namespace ddprun
