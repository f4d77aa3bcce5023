// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "ddp/export.h"

namespace ddp {

/// The kind of a failure, for programs. Error::what() is the text for users.
enum class ErrorKind {
  usage,        ///< wrong argument or environment: nothing was sent, the group stays usable
  unreachable,  ///< the store cannot be reached, or was lost
  timed_out,    ///< a deadline passed, usually because a rank did not make the call
  peer_lost,    ///< a rank died: its connection ended, or the launcher reported it
  mismatch,     ///< ranks made different calls
  system,       ///< another failure of the operating system or of the backend
  left,         ///< a rank has left the group, and this one waits for it
};

/// Thrown by every call of ddp that fails. what() is one sentence that names this rank, the call
/// and, where it is known, the rank that caused the failure.
class DDP_EXPORT Error : public std::runtime_error {
 public:
  /// Sets kind() and what().
  Error(ErrorKind kind, const std::string& sentence);
  ~Error() override;

  /// The kind of failure.
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace ddp
