// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/control_connection.h"

#include <array>
#include <optional>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>

#include "rendezvous/wire/control_frames.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr size_t kMaxUnsent = 1024 * 1024;
constexpr size_t kRoom = kMaxUnsent / 4;
constexpr size_t kReadSize = 16 * 1024;  // as much as a TLS record holds

/// The kernel closes the sockets of a process that ended, with a reset if bytes were unread. All
/// other errors are the network's, which may recover.
Error why_lost(const error_code& failure) {
  if (failure == asio::error::eof) return {Errc::closed, "connection closed"};
  if (failure == asio::error::connection_reset) return {Errc::closed, "connection reset"};
  return {Errc::unreachable, failure.message()};
}

}  // namespace

class ControlConnection::Stream : public std::enable_shared_from_this<Stream> {
 public:
  Stream(StreamSocket socket, Hooks hooks, size_t longest_frame,
         std::unique_ptr<SecureChannel> secure)
      : socket_(std::move(socket)),
        hooks_(std::move(hooks)),
        frames_(longest_frame),
        secure_(std::move(secure)) {
    error_code ignored;  // if the socket is closed already, reading reports it
    socket_.non_blocking(true, ignored);
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  }

  void start(std::string_view received) {
    frames_.feed(received);
    if (secure_) send_bytes(secure_->take_output());
    take_frames_later();
  }

  void pause() { paused_ = true; }

  void resume() {
    paused_ = false;
    take_frames_later();
  }

  void allow_long_frames() { frames_.allow_long_frames(); }

  void send(std::string_view bytes) {
    if (!secure_) return send_bytes(bytes);
    secure_->send(bytes);
    send_bytes(secure_->take_output());
  }

  /// False until the other side is proven: until then all that is sent is kept, without a bound.
  bool has_room() const { return is_proven() && unsent_.size() < kRoom; }

  /// Stops all calls of hooks.
  void release() {
    released_ = true;
    close();
  }

 private:
  void send_bytes(std::string_view bytes) {
    if (closed_) return;
    if (unsent_.empty()) bytes.remove_prefix(send_now(bytes));
    if (bytes.empty()) return;
    if (unsent_.size() + bytes.size() > kMaxUnsent) return lose_later();
    const bool waiting = !unsent_.empty();
    unsent_.append(bytes);
    if (!waiting) wait_to_send();
  }

  void close() {
    closed_ = true;
    error_code ignored;
    socket_.close(ignored);
  }

  void take_frames_later() {
    asio::post(socket_.get_executor(), [self = shared_from_this()] { self->take_frames(); });
  }

  void take_frames() {
    while (!closed_ && !paused_) {
      Result<std::optional<std::string>> body = frames_.next();
      if (!body) return lose(body.error());
      if (!*body) return insecure_ ? lose(*insecure_) : receive();
      hooks_.received(**body);
    }
  }

  void receive() {
    socket_.async_wait(StreamSocket::wait_read, [self = shared_from_this()](error_code failure) {
      if (!self->closed_) self->read_what_came(failure);
    });
  }

  void read_what_came(error_code failure) {
    std::array<char, kReadSize>
        buffer;  // not a member: thousands of agents are silent most of the time
    size_t size = 0;
    if (!failure) size = socket_.read_some(asio::buffer(buffer), failure);
    if (failure == asio::error::would_block) return receive();
    if (failure) return lose(why_lost(failure));
    feed({buffer.data(), size});
    take_frames();
  }

  /// If bytes cannot be decrypted, the messages before them are still taken.
  void feed(std::string_view bytes) {
    if (!secure_) return frames_.feed(bytes);
    const bool was_proven = is_proven();
    const Result<> decrypted = secure_->receive(bytes);
    if (!decrypted) insecure_ = decrypted.error();
    send_bytes(secure_->take_output());
    frames_.feed(secure_->take_received());
    if (!was_proven && is_proven() && unsent_.empty() && hooks_.drained) hooks_.drained();
  }

  bool is_proven() const { return !secure_ || secure_->is_proven(); }

  /// Returns the number of bytes that the kernel takes without waiting. A read reports a broken
  /// connection.
  size_t send_now(std::string_view bytes) {
    error_code ignored;
    return socket_.write_some(asio::buffer(bytes), ignored);
  }

  void wait_to_send() {
    socket_.async_wait(StreamSocket::wait_write, [self = shared_from_this()](error_code failure) {
      if (self->closed_ || failure) return;
      self->unsent_.erase(0, self->send_now(self->unsent_));
      if (!self->unsent_.empty()) return self->wait_to_send();
      if (self->hooks_.drained) self->hooks_.drained();
    });
  }

  /// The hook is not called from within send(), whose caller holds what the hook drops.
  void lose_later() {
    close();
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      if (!self->released_) self->lose({Errc::unreachable, "it does not read"});
    });
  }

  void lose(Error error) {
    const auto self = shared_from_this();  // the hook may drop the connection that owns us
    close();
    hooks_.lost(std::move(error));
  }

  StreamSocket socket_;
  Hooks hooks_;
  FrameReader frames_;
  std::unique_ptr<SecureChannel> secure_;  // nullptr: not encrypted
  std::optional<Error> insecure_;          // set: nothing can be decrypted any more
  std::string unsent_;
  bool paused_ = false;
  bool closed_ = false;
  bool released_ = false;
};

ControlConnection::ControlConnection(StreamSocket socket, std::string_view received, Hooks hooks,
                                     size_t longest_frame, std::unique_ptr<SecureChannel> secure)
    : stream_(std::make_shared<Stream>(std::move(socket), std::move(hooks), longest_frame,
                                       std::move(secure))) {
  stream_->start(received);
}

ControlConnection::~ControlConnection() {
  stream_->release();
}

void ControlConnection::allow_long_frames() {
  stream_->allow_long_frames();
}

void ControlConnection::pause() {
  stream_->pause();
}

void ControlConnection::resume() {
  stream_->resume();
}

void ControlConnection::send(std::string_view bytes) {
  stream_->send(bytes);
}

bool ControlConnection::has_room() const {
  return stream_->has_room();
}

}  // namespace ddprun::rendezvous
