// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include <boost/system/result.hpp>

namespace ddprun {

/// The kind of a failure; callers decide by it what to do.
enum class Errc {
  usage,           ///< bad flag, environment or file: report it, never retry
  not_found,       ///< the program to run does not exist
  not_executable,  ///< the program to run exists but cannot be executed
  port_in_use,     ///< another process listens there
  system,          ///< an operating-system call failed
  unreachable,     ///< the peer is lost, or it did not answer
  timed_out,       ///< a deadline passed
  left_out,        ///< the job has ended and had no place for this node
  closed,          ///< the job is over: joining again is pointless
  protocol,        ///< the peer sent invalid bytes
};

/// A failure: its kind, and one line of text for the user, without a full stop.
struct Error {
  Errc code;
  std::string message;

  /// The same failure as seen by a layer that knows more: "`context`: message".
  Error in(const std::string& context) && { return {code, context + ": " + std::move(message)}; }
};

/// A value or an Error. A plain `if (!r) return r.error();` passes it on.
template <class T = void>
using Result = boost::system::result<T, Error>;

/// `what` followed by the text of `error_number` (an errno), as Errc::system. EMFILE (too many open
/// files) adds the limit.
Error os_error(const std::string& what, int error_number);

/// Called by Boost when code takes the value of a Result that holds an Error, which is a bug in
/// ddprun: aborts with the message.
[[noreturn]] void throw_exception_from_error(const Error& error, const boost::source_location&);

}  // namespace ddprun
