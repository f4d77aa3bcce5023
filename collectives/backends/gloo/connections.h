// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "collectives/backends/gloo/frame.h"

namespace ddp::internal {

/// Runs work under the lock that protects every line, and not at all once they are to end.
using Enter = std::function<void(const std::function<void()>& work)>;

/// A connection on which this rank only writes. All is called, and calls back, under the lock of
/// `enter`, in whatever thread: what the socket takes at once is written by whoever has it to say.
class SendConnection {
 public:
  /// `ended` is told why, once, when the connection failed or ended.
  SendConnection(boost::asio::io_context& context, Enter enter,
                 std::function<void(const std::string& reason)> ended);

  /// Connects in the background; what is said meanwhile follows. `first` is said first.
  void open(const boost::asio::ip::tcp::endpoint& to, const Frame& first);
  bool is_open() const { return opened_; }

  /// Overtakes what streams. `written` is called when the socket has taken it all; `data` must stay
  /// until then.
  void say(const Frame& frame, const char* data = nullptr, std::function<void()> written = {});

  /// Sends data in pieces, in turns with what else streams. `moved` is called after each piece, the
  /// last one with true.
  void stream(std::uint64_t number, const char* data, std::size_t bytes,
              std::function<void(bool last)> moved);

  /// Nothing is called any more.
  void close() noexcept;

 private:
  struct Saying {
    Frame frame;
    const char* data = nullptr;
    std::size_t bytes = 0;
    std::size_t written = 0;  // of both
    std::function<void()> whole = {};
  };
  struct Stream {
    std::uint64_t number = 0;
    const char* data = nullptr;
    std::size_t bytes = 0;  // left
    std::function<void(bool last)> moved;
  };

  bool choose();
  void choose_piece();
  void write();
  void wait_until_writable();
  void watch();

  boost::asio::ip::tcp::socket socket_;
  Enter enter_;
  std::function<void(const std::string& reason)> ended_;
  bool opened_ = false;
  bool waits_ = true;  // for the connection, or until it takes more
  std::optional<Saying> current_;
  std::deque<Saying> sayings_;
  std::deque<Stream> streams_;
};

/// A connection on which this rank only reads. Calls back under the lock of `enter`, in the thread
/// of the context.
class RecvConnection : public std::enable_shared_from_this<RecvConnection> {
 public:
  /// `ended` is told why, once and last: nothing more comes.
  RecvConnection(boost::asio::ip::tcp::socket socket, Enter enter, FrameReader::Events events,
                 std::function<void(const std::string& reason)> ended);

  void open() { wait_until_readable(); }
  bool is_closed() const { return !socket_.is_open(); }

  /// Nothing is called any more.
  void close() noexcept;

 private:
  void wait_until_readable();
  void read();
  void end(const std::string& reason);

  boost::asio::ip::tcp::socket socket_;
  Enter enter_;
  FrameReader reader_;
  std::function<void(const std::string& reason)> ended_;
};

/// Readies a new socket: it neither blocks nor waits for more to send, and no program started by
/// this one keeps it open.
void prepare(boost::asio::ip::tcp::socket& socket);

}  // namespace ddp::internal
