// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/wire/control_frames.h"

namespace ddprun::rendezvous {

/// One end of a control connection: frames in both directions. The server and the agents both use
/// it.
///
/// Destroying it closes the socket, and no hook is called any more. A hook may destroy it.
/// Thread: the socket's executor's.
class ControlConnection {
 public:
  struct Hooks {
    std::function<void(std::string_view body)> received;
    /// The last hook called. Errors: closed (the peer's kernel closed it: the process there has
    /// ended), unreachable (the network is broken), protocol (the bytes were no frame), usage (the
    /// peer has another secret, or none: the reason).
    std::function<void(Error)> lost;
    /// The kernel has taken all that was sent, if some of it had to wait, also for the other side's
    /// proof. May be empty.
    std::function<void()> drained = nullptr;
  };

  /// Begins to read. `received` are the peer's bytes that were read before, decrypted. A frame
  /// longer than `longest_frame` ends the connection. `secure` encrypts it; nullptr: nothing does.
  ControlConnection(StreamSocket socket, std::string_view received, Hooks hooks,
                    size_t longest_frame = kMaxFrame,
                    std::unique_ptr<SecureChannel> secure = nullptr);
  ~ControlConnection();

  /// Frames may be as long as kMaxFrame from now on.
  void allow_long_frames();

  /// Calls `received` no more, and reads nothing, until resume().
  void pause();
  void resume();

  /// Sends `bytes` (a frame, or the greeting). The kernel has taken them when this returns
  /// unless its buffer is full, so that a process may send a last message and end. A peer that
  /// leaves more than 1 MiB unread is lost.
  void send(std::string_view bytes);

  /// Whether the other side is proven, where that is needed, and little of what was sent waits for
  /// it. If not, `drained` follows.
  bool has_room() const;

 private:
  class Stream;
  std::shared_ptr<Stream> stream_;  // shared with the operations under way, which may outlive us
};

}  // namespace ddprun::rendezvous
