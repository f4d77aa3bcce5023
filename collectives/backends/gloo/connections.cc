// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/connections.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>

namespace ddp::internal {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// Long messages go in pieces of so many bytes, so that others are not held up and what is copied
/// stays in the cache. With its frame a piece is just under two segments of the loopback device
/// (65,483 bytes each).
constexpr std::size_t kPiece = 126 << 10;

/// After so many bytes a line lets others have the lock.
constexpr std::size_t kTurn = 1 << 20;

std::string reason_of(const error_code& error) {
  return error == asio::error::eof ? "its connection ended" : error.message();
}

}  // namespace

void prepare(tcp::socket& socket) {
  error_code ignored;  // of a connection that has ended already: reading tells
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
}

SendConnection::SendConnection(asio::io_context& context, Enter enter,
                               std::function<void(const std::string& reason)> ended)
    : socket_(context), enter_(std::move(enter)), ended_(std::move(ended)) {}

void SendConnection::open(const tcp::endpoint& to, const Frame& first) {
  opened_ = true;
  sayings_.push_front({.frame = first});
  socket_.async_connect(to, [this](const error_code& error) {
    enter_([&] {
      if (error) return ended_(error.message());
      prepare(socket_);
      watch();
      write();
    });
  });
}

/// Nothing is ever sent to us here: to read is to be told of the end.
void SendConnection::watch() {
  socket_.async_wait(tcp::socket::wait_read, [this](const error_code&) {
    enter_([&] {
      char byte = 0;
      error_code error;
      socket_.read_some(asio::buffer(&byte, 1), error);
      ended_(error ? reason_of(error) : "it sends what is no message");
    });
  });
}

void SendConnection::say(const Frame& frame, const char* data, std::function<void()> written) {
  sayings_.push_back({frame, data, frame.follow(), 0, std::move(written)});
  if (!waits_) write();
}

void SendConnection::stream(std::uint64_t number, const char* data, std::size_t bytes,
                            std::function<void(bool last)> moved) {
  streams_.push_back({number, data, bytes, std::move(moved)});
  if (!waits_) write();
}

void SendConnection::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

bool SendConnection::choose() {
  if (current_) return true;
  if (!sayings_.empty()) {
    current_ = std::move(sayings_.front());
    sayings_.pop_front();
  } else if (!streams_.empty()) {
    choose_piece();
  }
  return current_.has_value();
}

void SendConnection::choose_piece() {
  Stream stream = std::move(streams_.front());
  streams_.pop_front();
  const std::size_t bytes = std::min(stream.bytes, kPiece);
  const Frame frame{.kind = Frame::Kind::data, .number = stream.number, .count = bytes};
  const char* const piece = stream.data;
  stream.data += bytes;
  stream.bytes -= bytes;
  current_ = {frame, piece, bytes, 0, [this, stream = std::move(stream)]() mutable {
                const bool last = stream.bytes == 0;
                stream.moved(last);
                if (!last) streams_.push_back(std::move(stream));
              }};
}

void SendConnection::write() {
  waits_ = false;
  for (std::size_t turn = 0; turn < kTurn && choose();) {
    const std::size_t of_frame = std::min(current_->written, sizeof(Frame));
    const std::size_t of_data = current_->written - of_frame;
    const std::array<asio::const_buffer, 2> rest = {
        asio::buffer(reinterpret_cast<const char*>(&current_->frame) + of_frame,
                     sizeof(Frame) - of_frame),
        asio::buffer(current_->data + of_data, current_->bytes - of_data)};
    error_code error;
    const std::size_t written = socket_.write_some(rest, error);
    if (error == asio::error::would_block) break;
    if (error) return ended_(error.message());
    turn += written;
    current_->written += written;
    if (current_->written < sizeof(Frame) + current_->bytes) continue;
    const auto whole = std::move(current_->whole);
    current_.reset();
    if (whole) whole();
  }
  if (choose()) wait_until_writable();
}

void SendConnection::wait_until_writable() {
  waits_ = true;
  socket_.async_wait(tcp::socket::wait_write, [this](const error_code&) {
    enter_([&] { write(); });  // which finds the error itself
  });
}

RecvConnection::RecvConnection(tcp::socket socket, Enter enter, FrameReader::Events events,
                               std::function<void(const std::string& reason)> ended)
    : socket_(std::move(socket)),
      enter_(std::move(enter)),
      reader_(std::move(events)),
      ended_(std::move(ended)) {}

void RecvConnection::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

void RecvConnection::wait_until_readable() {
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const error_code&) {
    self->enter_([&] {
      if (!self->is_closed()) self->read();  // which finds the error itself
    });
  });
}

void RecvConnection::read() {
  for (std::size_t turn = 0; turn < kTurn;) {
    const auto [data, frames] = reader_.room();
    const std::array<asio::mutable_buffer, 2> places = {asio::buffer(data.data(), data.size()),
                                                        asio::buffer(frames.data(), frames.size())};
    error_code error;
    const std::size_t bytes = socket_.read_some(places, error);
    if (error == asio::error::would_block) break;
    if (error) return end(reason_of(error));
    turn += bytes;
    if (!reader_.take(bytes)) return end("it sends what is no message");
  }
  wait_until_readable();
}

void RecvConnection::end(const std::string& reason) {
  close();
  ended_(reason);
}

}  // namespace ddp::internal
