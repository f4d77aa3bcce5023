// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <type_traits>

namespace ddprun::launcher {

/// The message that the guardian sends when the agent has ended and all of its descendants are
/// reaped. Lives in memory that both processes share; zeros mean that no message is set.
class FinalMessage {
 public:
  /// The bytes to send next.
  struct Turn {
    std::string bytes;
    bool is_last = true;  ///< else more is sent after an answer
  };

  /// Speaks on the connection: gets what the other side sent, at first nothing.
  using Talk = std::function<Turn(std::string_view received)>;

  /// Makes the conversation, from the stored subject and from how the agent ended: "its agent was
  /// killed by SIGKILL".
  using Compose = std::function<Talk(const std::string& subject, const std::string& how)>;

  /// The socket address to send to, and the address to send from, which may be empty.
  struct Route {
    std::string_view to;
    std::string_view from;
  };

  /// Called in the agent: sets a message about `subject`, of 512 bytes at most. If the agent is
  /// killed during this call, no message is set.
  void set(const Route& route, std::string_view subject);

  /// Called in the agent: there is no message.
  void clear() { is_set_ = false; }

  /// Called in the guardian: connects, sends and closes, within two seconds in all. Ignores errors:
  /// the message only saves time.
  void send(const Compose& compose, const std::string& how) const;

 private:
  template <size_t kMost>
  struct Text {
    bool store(std::string_view from);

    size_t size;
    alignas(sockaddr_storage) char bytes[kMost];
  };
  using Address = Text<sizeof(sockaddr_storage)>;

  std::atomic<bool> is_set_;
  Address to_;
  Address from_;
  Text<512> subject_;
};

}  // namespace ddprun::launcher
