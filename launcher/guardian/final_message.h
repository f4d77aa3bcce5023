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
/// reaped. Lives in memory that both processes share, and begins as zeros: there is none.
class FinalMessage {
 public:
  /// The bytes to send next.
  struct Turn {
    std::string bytes;
    bool is_last = true;  ///< else there is more to send after an answer
  };

  /// Speaks on the connection: is called with what came from the other side, at first with nothing.
  using Talk = std::function<Turn(std::string_view received)>;

  /// Makes the conversation, from the stored subject and how the agent ended: "its agent was
  /// killed by SIGKILL".
  using Compose = std::function<Talk(const std::string& subject, const std::string& how)>;

  /// Where to: a socket address; `from` is the address to send from, or empty.
  struct Route {
    std::string_view to;
    std::string_view from;
  };

  /// In the agent: there is one, about `subject`, of 512 bytes at most. One that is killed
  /// meanwhile leaves none.
  void set(const Route& route, std::string_view subject);

  /// In the agent: there is none.
  void clear() { is_set_ = false; }

  /// In the guardian: connects, sends and closes, within two seconds in all. Errors are ignored:
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
