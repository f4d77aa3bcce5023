// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace ddp::internal {

/// Where a descriptor is handed over: a Unix socket with an abstract name, which only processes of
/// one network namespace reach and which ends with its process, and the token that a process must
/// know to get it. On top of that both sides must run as the same user.
struct ShmMeeting {
  std::string name;
  std::uint64_t token = 0;
};

/// Of the network namespace of this thread: processes with different ones do not reach each other
/// so. 0: not known.
std::uint64_t network_namespace();

/// The side that has the descriptor.
class ShmOffer {
 public:
  /// Listens; not if the name is taken or the kernel refuses.
  explicit ShmOffer(const ShmMeeting& meeting, int takers);

  bool is_listening() const { return static_cast<bool>(listener_); }

  /// Sends the descriptor to every taker that has connected so far. Never waits.
  void hand_over(const ddprun::Fd& memory);

 private:
  std::uint64_t token_;
  ddprun::Fd listener_;
};

/// A side that gets it.
class ShmTaker {
 public:
  /// Connects; not if no process of this user listens here.
  explicit ShmTaker(const ShmMeeting& meeting);

  bool is_connected() const { return static_cast<bool>(connection_); }

  /// Waits for the descriptor; empty if the other side closed without one, or after the time limit.
  ddprun::Fd take(std::chrono::milliseconds limit);

 private:
  ddprun::Fd connection_;
};

}  // namespace ddp::internal
