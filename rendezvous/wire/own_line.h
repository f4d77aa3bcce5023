// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>

#include "base/error.h"
#include "rendezvous/wire/protocol.h"

namespace ddprun::rendezvous {

/// The `message` as the other end gets it. Messages that each start and end of a job needs stay as
/// they are: they have no text of a worker or of another node. All others are encoded and decoded,
/// which cuts and cleans such texts. Errors: as decode_message and decode_reply.
Result<Message> handed_over(Message message);
Result<Reply> handed_over(Reply reply);

/// One end of the line between a server and the agent of its own process: as ControlConnection,
/// with messages instead of bytes. A message reaches the other end in a handler of its own, in
/// order.
///
/// Destroying it ends the line, and no hook is called any more. A hook may destroy it.
/// Thread: the executor's.
template <class Sent, class Received>
class OwnLineEnd {
 public:
  struct Hooks {
    std::function<void(Result<Received>)> received;
    std::function<void()> lost;  ///< the last one called: the other end was destroyed
  };
  using Other = OwnLineEnd<Received, Sent>;

  OwnLineEnd(boost::asio::any_io_executor executor, Hooks hooks)
      : executor_(std::move(executor)), hooks_(std::make_shared<Hooks>(std::move(hooks))) {}
  OwnLineEnd(const OwnLineEnd&) = delete;
  ~OwnLineEnd() {
    boost::asio::post(executor_, [other = other_] {
      if (const auto hooks = other.lock()) hooks->lost();
    });
  }

  /// Call it once, before the first message.
  void connect(Other& other) {
    other_ = other.hooks_;
    other.other_ = hooks_;
  }

  void send(Sent message) {
    boost::asio::post(executor_,
                      [other = other_, message = handed_over(std::move(message))]() mutable {
                        if (const auto hooks = other.lock()) hooks->received(std::move(message));
                      });
  }

 private:
  friend Other;

  boost::asio::any_io_executor executor_;
  std::shared_ptr<Hooks> hooks_;
  std::weak_ptr<typename Other::Hooks> other_;
};

/// The agent's end and the server's.
using AgentsEnd = OwnLineEnd<Message, Reply>;
using ServersEnd = OwnLineEnd<Reply, Message>;

}  // namespace ddprun::rendezvous
