// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "ddp/export.h"

namespace ddp {

namespace internal {
struct ErrorAccess;
struct ErrorFacts;
}  // namespace internal

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

  /// The ranks that were lost or have left, by their numbers in the first group; the same on every
  /// rank that fails. Empty if the failure is another one, or names no rank: as that of the store,
  /// of NCCL, and those that ddprun reports.
  const std::vector<int>& lost_ranks() const noexcept;

 private:
  friend struct internal::ErrorAccess;

  ErrorKind kind_;
  std::shared_ptr<const internal::ErrorFacts> facts_;  // null: there are none
};

}  // namespace ddp
