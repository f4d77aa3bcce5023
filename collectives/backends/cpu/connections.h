// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/fd.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/shm/ring.h"

namespace ddp::internal {

/// Runs work under the lock that protects all connections; does nothing once they are closed.
using RunLocked = std::function<void(const std::function<void()>& work)>;

/// A connection on which this rank only writes; from use_ring() on, a ring that it writes to.
///
/// Thread: any, under the lock of `run_locked`; callbacks, too. The sending thread writes at once
/// what the socket takes; the thread of the io_context writes the rest.
class SendConnection {
 public:
  /// `on_closed` is called once, with the reason, when the connection failed or ended.
  SendConnection(boost::asio::io_context& context, RunLocked run_locked,
                 std::function<void(const std::string& reason)> on_closed);

  /// Connects in the background. Sends `first` first, then the frames given before it connected. If
  /// there is no descriptor, calls `on_closed` at once.
  void open(const boost::asio::ip::tcp::endpoint& to, const Frame& first);
  bool is_open() const { return opened_; }

  /// Sends a frame, and as much data as it says, before the next piece of any long message. Calls
  /// `on_sent` when the socket has taken it all; `data` must stay valid until then.
  void send(const Frame& frame, const char* data = nullptr, std::function<void()> on_sent = {});

  /// Sends a frame with its data into the ring at once. Returns false if the ring is not used yet,
  /// has no room for all of it, or has other data to send first.
  bool send_now(const Frame& frame, const char* data);

  /// Sends the data of long message `number` in pieces, by turns with other long messages. Calls
  /// `on_sent` after each piece, with true after the last.
  void send_pieces(std::uint64_t number, const char* data, std::size_t bytes,
                   std::function<void(bool last)> on_sent);

  /// Continues in the ring once everything sent before is written.
  void use_ring(ShmRing ring);
  bool has_ring() const { return ring_.has_value(); }
  bool is_in_ring() const { return is_in_ring_; }

  /// While `awake`, go_on() is called often; else the ring's reader wakes this end.
  void set_awake(bool awake) {
    awake_ = awake;
    if (!awake) go_on();
  }
  /// Writes what the ring has room for, if it is used.
  void go_on() {
    if (is_in_ring_ && !waiting_) write();
  }

  /// After this no callback is called.
  void close() noexcept;

 private:
  struct Outgoing {
    Frame frame;
    const char* data = nullptr;
    std::size_t bytes = 0;
    std::size_t written = 0;  // bytes of frame and data together
    std::function<void()> on_sent = {};
  };
  struct LongMessage {
    std::uint64_t number = 0;
    const char* data = nullptr;
    std::size_t bytes = 0;  // bytes left
    std::function<void(bool last)> on_sent;
  };

  bool select_next();
  void select_piece();
  std::size_t write_some(std::span<const char> head, std::span<const char> data,
                         boost::system::error_code& error);
  void write();
  void write_later();
  void wait_until_writable();
  void watch_for_end();

  boost::asio::ip::tcp::socket socket_;
  RunLocked run_locked_;
  std::function<void(const std::string& reason)> on_closed_;
  bool opened_ = false;
  bool waiting_ = true;  // until the connection is made, or the socket is writable
  std::optional<Outgoing> current_;
  std::deque<Outgoing> frames_;
  std::deque<LongMessage> long_messages_;
  std::optional<ShmRing> ring_;
  bool is_in_ring_ = false;
  bool awake_ = false;
};

/// A connection on which this rank only reads; from a frame `turn` on, a ring. Callbacks are called
/// under the lock of `run_locked`, in the thread of the io_context or of read_ring().
class RecvConnection : public std::enable_shared_from_this<RecvConnection> {
 public:
  /// `on_closed` is called once, with the reason, as the last callback.
  RecvConnection(boost::asio::ip::tcp::socket socket, RunLocked run_locked,
                 FrameReader::Events events,
                 std::function<void(const std::string& reason)> on_closed);

  void open() { wait_until_readable(); }
  bool is_closed() const { return !socket_.is_open(); }

  /// Releases the socket: it is not read here any more, and no callback is called.
  ddprun::Fd release() { return ddprun::Fd(socket_.release()); }

  /// Sets a ring that the other side may write to, from a frame `turn` on.
  void set_ring(ShmRing ring) { ring_.emplace(std::move(ring)); }
  bool has_ring() const { return ring_.has_value(); }
  bool has_writer_given_up() const { return !ring_ || ring_->has_writer_given_up(); }
  /// The frame `turn` came. Returns false if there is no ring.
  bool turn_to_ring() { return is_in_ring_ = ring_.has_value(); }

  /// Reads what is in the ring, at most one turn's bytes; returns whether there was anything.
  bool read_ring();
  /// Returns the next frame in the ring if everything before it is read.
  std::optional<Frame> peek_ring();
  /// Reads that frame, with its data to `data`, which may still be coming; false if it does not.
  bool take_peeked(const Frame& frame, char* data);

  /// While `awake`, read_ring() is called often. Else this end reads what is there in the
  /// background, and then the ring's writer wakes it.
  void set_awake(bool awake);

  /// After this no callback is called.
  void close() noexcept;

 private:
  void wait_until_readable();
  void read();
  bool skip_wakes();
  void read_later();
  void end(const std::string& reason);

  boost::asio::ip::tcp::socket socket_;
  RunLocked run_locked_;
  FrameReader reader_;
  std::function<void(const std::string& reason)> on_closed_;
  std::optional<ShmRing> ring_;
  bool is_in_ring_ = false;
  bool awake_ = false;
  bool reads_later_ = false;
};

/// Makes a new socket non-blocking, without Nagle's delay, and closed in programs that this process
/// executes.
void set_socket_options(boost::asio::ip::tcp::socket& socket);

}  // namespace ddp::internal
