// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/connections.h"

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include "collectives/kept_from_children.h"

namespace ddp::internal {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// The size of a long message's pieces, so that other messages need not wait and the copy stays in
/// the cache. With its frame a piece is just under two segments of the loopback device (65,483
/// bytes each).
constexpr std::size_t kPiece = 126 << 10;

/// After so many bytes a connection gives up the lock, for the other connections.
constexpr std::size_t kBytesPerTurn = 1 << 20;

/// Wakes the other end of a ring. If the socket has no room, earlier bytes will wake it.
void wake_other_end(tcp::socket& socket) {
  const char wake = 0;
  error_code ignored;  // if the connection has ended, reading finds it
  socket.write_some(asio::buffer(&wake, 1), ignored);
}

std::string reason_of(const error_code& error) {
  return error == asio::error::eof ? "its connection ended" : error.message();
}

}  // namespace

void set_socket_options(tcp::socket& socket) {
  error_code ignored;  // if the connection has ended already, reading finds it
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  keep_from_children(socket.native_handle());
}

SendConnection::SendConnection(asio::io_context& context, RunLocked run_locked,
                               std::function<void(const std::string& reason)> on_closed)
    : socket_(context), run_locked_(std::move(run_locked)), on_closed_(std::move(on_closed)) {}

void SendConnection::open(const tcp::endpoint& to, const Frame& first) {
  opened_ = true;
  frames_.push_front({.frame = first});
  error_code failed;
  socket_.open(to.protocol(), failed);
  if (failed) return on_closed_(failed.message());
  socket_.async_connect(to, [this](const error_code& error) {
    run_locked_([&] {
      if (error) return on_closed_(error.message());
      set_socket_options(socket_);
      watch_for_end();
      write();
    });
  });
}

/// The peer only sends here when its ring has room again. Otherwise a readable socket means that
/// the connection ended.
void SendConnection::watch_for_end() {
  socket_.async_wait(tcp::socket::wait_read, [this](const error_code&) {
    run_locked_([&] {
      char byte = 0;
      error_code error;
      socket_.read_some(asio::buffer(&byte, 1), error);
      if (error == asio::error::would_block) return watch_for_end();
      if (error || !is_in_ring_) {
        return on_closed_(error ? reason_of(error) : "it sent an invalid message");
      }
      watch_for_end();
      write();
    });
  });
}

void SendConnection::send(const Frame& frame, const char* data, std::function<void()> on_sent) {
  Outgoing outgoing{frame, data, frame.follow(), 0, std::move(on_sent)};
  if (waiting_ || current_ || !frames_.empty()) {
    frames_.push_back(std::move(outgoing));
  } else {
    current_ = std::move(outgoing);
  }
  if (!waiting_) write();
}

bool SendConnection::send_now(const Frame& frame, const char* data) {
  const bool has_other = current_ || !frames_.empty() || !long_messages_.empty();
  if (!is_in_ring_ || waiting_ || has_other) return false;
  if (!ring_->has_room_for(sizeof(frame) + frame.follow())) return false;
  ring_->write({reinterpret_cast<const char*>(&frame), sizeof(frame)}, {data, frame.follow()});
  if (ring_->must_wake_reader()) wake_other_end(socket_);
  return true;
}

void SendConnection::send_pieces(std::uint64_t number, const char* data, std::size_t bytes,
                                 std::function<void(bool last)> on_sent) {
  long_messages_.push_back({number, data, bytes, std::move(on_sent)});
  if (!waiting_) write();
}

void SendConnection::use_ring(ShmRing ring) {
  ring_.emplace(std::move(ring));
  send({.kind = Frame::Kind::turn}, nullptr, [this] { is_in_ring_ = true; });
}

void SendConnection::close() noexcept {
  if (ring_) ring_->give_up();
  error_code ignored;
  socket_.close(ignored);
}

bool SendConnection::select_next() {
  if (current_) return true;
  if (!frames_.empty()) {
    current_ = std::move(frames_.front());
    frames_.pop_front();
  } else if (!long_messages_.empty()) {
    select_piece();
  }
  return current_.has_value();
}

void SendConnection::select_piece() {
  LongMessage message = std::move(long_messages_.front());
  long_messages_.pop_front();
  const std::size_t bytes = std::min(message.bytes, kPiece);
  const Frame frame{.kind = Frame::Kind::data, .number = message.number, .count = bytes};
  const char* const piece = message.data;
  message.data += bytes;
  message.bytes -= bytes;
  current_ = {frame, piece, bytes, 0, [this, message = std::move(message)]() mutable {
                const bool last = message.bytes == 0;
                message.on_sent(last);
                if (!last) long_messages_.push_back(std::move(message));
              }};
}

std::size_t SendConnection::write_some(std::span<const char> head, std::span<const char> data,
                                       error_code& error) {
  if (!is_in_ring_) {
    return socket_.write_some(
        std::array{asio::buffer(head.data(), head.size()), asio::buffer(data.data(), data.size())},
        error);
  }
  const std::size_t written = ring_->write(head, data);
  if (written == 0) error = asio::error::would_block;
  if (written > 0 && ring_->must_wake_reader()) wake_other_end(socket_);
  return written;
}

void SendConnection::write() {
  waiting_ = false;
  bool has_room = true;
  for (std::size_t moved = 0; moved < kBytesPerTurn && select_next();) {
    const std::size_t of_frame = std::min(current_->written, sizeof(Frame));
    const std::size_t of_data = current_->written - of_frame;
    const auto frame = std::as_bytes(std::span(&current_->frame, 1)).subspan(of_frame);
    error_code error;
    const std::size_t written =
        write_some({reinterpret_cast<const char*>(frame.data()), frame.size()},
                   {current_->data + of_data, current_->bytes - of_data}, error);
    has_room = error != asio::error::would_block;
    if (!has_room) break;
    if (error) return on_closed_(error.message());
    moved += written;
    current_->written += written;
    if (current_->written < sizeof(Frame) + current_->bytes) continue;
    const auto on_sent = std::move(current_->on_sent);
    current_.reset();
    if (on_sent) on_sent();
  }
  if (!select_next()) return;
  if (!is_in_ring_) return wait_until_writable();
  if (!awake_ && (has_room || !ring_->waits_for_room())) write_later();
}

void SendConnection::write_later() {
  waiting_ = true;
  asio::post(socket_.get_executor(), [this] { run_locked_([&] { write(); }); });
}

void SendConnection::wait_until_writable() {
  waiting_ = true;
  socket_.async_wait(tcp::socket::wait_write, [this](const error_code&) {
    run_locked_([&] { write(); });  // write() finds an error itself
  });
}

RecvConnection::RecvConnection(tcp::socket socket, RunLocked run_locked, FrameReader::Events events,
                               std::function<void(const std::string& reason)> on_closed)
    : socket_(std::move(socket)),
      run_locked_(std::move(run_locked)),
      reader_(std::move(events)),
      on_closed_(std::move(on_closed)) {}

void RecvConnection::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

void RecvConnection::wait_until_readable() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code&) {
    self->run_locked_([&] {
      if (!self->is_closed()) self->read();  // read() finds an error itself
    });
  });
}

bool RecvConnection::read_ring() {
  if (!is_in_ring_ || is_closed()) return false;
  std::size_t moved = 0;
  while (moved < kBytesPerTurn) {
    const auto [data, frames] = reader_.room();
    const std::size_t bytes = ring_->read(data, frames);
    if (bytes == 0) break;
    moved += bytes;
    if (!reader_.take(bytes)) {
      end("it sent an invalid message");
      return true;
    }
  }
  if (moved > 0 && ring_->must_wake_writer()) wake_other_end(socket_);
  return moved > 0;
}

std::optional<Frame> RecvConnection::peek_ring() {
  Frame frame;
  if (!is_in_ring_ || is_closed() || !reader_.is_between_frames()) return std::nullopt;
  if (!ring_->peek({reinterpret_cast<char*>(&frame), sizeof(frame)})) return std::nullopt;
  return frame;
}

bool RecvConnection::take_peeked(const Frame& frame, char* data) {
  std::array<char, sizeof(Frame)> head;
  if (!ring_->read_all(head, {data, frame.follow()})) return false;
  if (ring_->must_wake_writer()) wake_other_end(socket_);
  return true;
}

/// A writer as fast as this reader must not keep the lock here, so after one turn others get it.
void RecvConnection::set_awake(bool awake) {
  awake_ = awake;
  if (awake) return ring_->stay_awake();
  if (!ring_->waits_for_bytes() && read_ring() && !ring_->waits_for_bytes()) read_later();
}

void RecvConnection::read_later() {
  if (std::exchange(reads_later_, true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->run_locked_([&] {
      self->reads_later_ = false;
      if (!self->awake_) self->set_awake(false);
    });
  });
}

/// Reads bytes that were sent to wake this end. Returns false after the end of the connection, when
/// all that was written to the ring before is read.
bool RecvConnection::skip_wakes() {
  std::array<char, 256> wakes;
  error_code error;
  socket_.read_some(asio::buffer(wakes), error);
  read_ring();
  if (!error || error == asio::error::would_block) return true;
  if (!is_closed()) end(reason_of(error));
  return false;
}

void RecvConnection::read() {
  if (is_in_ring_) {
    if (!skip_wakes()) return;
    set_awake(awake_);
    return wait_until_readable();
  }
  for (std::size_t moved = 0; moved < kBytesPerTurn;) {
    const auto [data, frames] = reader_.room();
    const std::array<asio::mutable_buffer, 2> rooms = {asio::buffer(data.data(), data.size()),
                                                       asio::buffer(frames.data(), frames.size())};
    error_code error;
    const std::size_t bytes = socket_.read_some(rooms, error);
    if (error == asio::error::would_block) break;
    if (error) return end(reason_of(error));
    moved += bytes;
    if (!reader_.take(bytes)) return end("it sent an invalid message");
    if (is_closed()) return;         // or it is released
    if (is_in_ring_) return read();  // the other side may have continued in the ring already
  }
  wait_until_readable();
}

void RecvConnection::end(const std::string& reason) {
  close();
  on_closed_(reason);
}

}  // namespace ddp::internal
