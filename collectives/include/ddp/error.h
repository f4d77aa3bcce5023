// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "ddp/export.h"

namespace ddp {

/// What went wrong, for programs; Error::what() is the sentence for people.
enum class ErrorKind {
  usage,        ///< wrong argument or environment: nothing was sent, the group stays usable
  unreachable,  ///< the store cannot be reached, or was lost
  timed_out,    ///< a rank did not come in time
  peer_lost,    ///< a rank died, or left: its connection ended, or the launcher says so
  mismatch,     ///< ranks made different calls
  system,       ///< anything else the operating system or the backend refused
};

/// Thrown by every call of ddp that did not do what it was asked. One sentence, which names this
/// rank, the call and, where it is known, the rank to blame.
class DDP_EXPORT Error : public std::runtime_error {
 public:
  /// What what() and kind() give.
  Error(ErrorKind kind, const std::string& sentence);
  ~Error() override;

  /// What went wrong, for programs.
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace ddp
