// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectives/backends/gloo/connections.h"
#include "collectives/backends/gloo/mesh.h"
#include "collectives/backends/gloo/message.h"
#include "collectives/backends/gloo/peer.h"
#include "collectives/backends/group_context.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Messages between pairs of ranks: they go on in the background, whatever else the ranks do.
///
/// On connections of our own, beside Gloo's: its buffers cannot be asked whether they are done, and
/// in its asynchronous mode the end of a connection can be overlooked. Ranks connect when there is
/// first a message between them. One thread reads, and writes what no socket took at once; a short
/// message is written by the thread that sends it.
///
/// The first failure ends all messages, after the group's agreed error on it is known.
///
/// Thread: any, several at once.
class GlooMessages {
 public:
  /// Accepts other ranks at the mesh's listener. `broke` is called with the first failure that is
  /// seen here, in any thread.
  GlooMessages(GroupContext& context, GlooMesh& mesh,
               std::function<void(const Error& error)> broke);
  GlooMessages(const GlooMessages&) = delete;
  GlooMessages& operator=(const GlooMessages&) = delete;

  /// Gives up what is not done.
  ~GlooMessages();

  /// Begins all messages of the task at once.
  std::shared_ptr<AsyncCall> begin(const Task& task);

  /// Fails all messages, those under way included.
  void fail(const Error& error) noexcept;

  /// Waits for the messages that were begun, then tells the other ranks that none is waited for.
  void finish();

 private:
  /// Somebody who connected; a rank once it has said so, to send messages or to watch us.
  struct Guest {
    std::shared_ptr<RecvConnection> inlet;
    GlooPeer* peer = nullptr;
    bool watches = false;
  };

  template <class F>
  void enter(const F& work);
  void run();
  void accept();
  void make_room();
  void welcome(boost::asio::ip::tcp::socket socket);
  bool heard(Guest& guest, const Frame& frame, const char* data);
  GlooPeer::Events events_with(int other);
  GlooPeer& peer(int other) { return *peers_[static_cast<std::size_t>(other)]; }

  void done(MessageAt message);
  std::optional<MessageAt> oldest_with(int other);
  void stop(std::function<Error()> ask);
  void differ(MessageAt message, const std::string& theirs);
  void lose(int other, const std::string& reason);
  void lose_listener(const std::string& reason);
  void overrun(int other, std::size_t held, std::int32_t tag);
  void time_out(MessageAt message);
  void watch_the_clock();
  std::string named(MessageAt message) const;
  std::string rank_of(MessageAt message) const;

  GroupContext& context_;
  const std::uint64_t token_;
  const std::function<void(const Error& error)> broke_;
  boost::asio::io_context io_context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer clock_;

  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  Messages open_;  // in the order in which they were begun
  std::list<Guest> guests_;
  std::vector<std::unique_ptr<GlooPeer>> peers_;  // by rank; ours is null
  bool watches_ = false;                          // the clock
  std::function<Error()> trouble_;                // asks the group what to say of what went wrong
  bool breaks_ = false;                           // asks it
  std::optional<Error> failure_;
  std::thread thread_;
};

}  // namespace ddp::internal
