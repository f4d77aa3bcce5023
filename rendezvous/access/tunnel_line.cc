// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/tunnel_line.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>

namespace ddprun::rendezvous {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using FrameKind = TunnelFrame::Kind;

}  // namespace

TunnelLine::TunnelLine(StreamSocket socket, std::string_view received,
                       std::unique_ptr<SecureChannel> secure, Hooks hooks)
    : hooks_(std::move(hooks)),
      line_(std::move(socket), received,
            {.received = [this](std::string_view body) { on_frame(body); },
             .lost = [this](const Error& error) { fail(error); },
             .drained = [this] { on_drained(); }},
            kMaxTunnelPiece + kTunnelHeader, std::move(secure)) {}

void TunnelLine::carry(StreamSocket local, std::string_view received, store::ConnectionSlot slot) {
  if (streams_.size() >= kMostConnections) return;
  Stream& stream = add(++last_, std::move(local));
  stream.slot = std::move(slot);
  stream.slot.on_eviction([this, number = stream.number] { close(number); });
  line_.send(encode({stream.number, FrameKind::open, received}));
  read(stream);
}

TunnelLine::Stream& TunnelLine::add(Number number, StreamSocket local) {
  error_code ignored;
  local.non_blocking(true, ignored);
  return *streams_.emplace(number, std::make_shared<Stream>(number, std::move(local)))
              .first->second;
}

void TunnelLine::on_frame(std::string_view body) {
  const Result<TunnelFrame> frame = decode_tunnel_frame(body);
  const Result<> taken = frame ? take(*frame) : frame.error();
  if (!taken) fail(taken.error());
}

Result<> TunnelLine::take(const TunnelFrame& frame) {
  if (frame.kind == FrameKind::open) return open(frame);
  const auto found = streams_.find(frame.connection);
  if (found == streams_.end()) return {};  // it was closed at this end
  Stream& stream = *found->second;
  if (frame.kind == FrameKind::data) return take_bytes(stream, frame.bytes);
  if (frame.kind == FrameKind::close) {
    stream.closing = true;
    if (stream.unwritten.empty()) streams_.erase(found);
    return {};
  }
  const Result<> confirmed = stream.flow.confirmed(frame.count);
  if (confirmed) read(stream);
  return confirmed;
}

Result<> TunnelLine::open(const TunnelFrame& frame) {
  if (!hooks_.opened || frame.connection <= last_) {
    return Error{Errc::protocol, "a connection was opened that cannot be"};
  }
  last_ = frame.connection;
  std::optional<StreamSocket> local;
  if (streams_.size() < kMostConnections) local = hooks_.opened(frame.bytes);
  if (local) {
    read(add(frame.connection, std::move(*local)));
  } else {
    line_.send(encode({frame.connection, FrameKind::close}));
  }
  return {};
}

Result<> TunnelLine::take_bytes(Stream& stream, std::string_view bytes) {
  const Result<> received = stream.flow.received(bytes.size());
  if (!received) return received;
  stream.unwritten.append(bytes);
  if (stream.unwritten.size() == bytes.size()) write(stream);
  return {};
}

/// Reads when there is something to read, and room for it.
void TunnelLine::read(Stream& stream) {
  if (stream.reading || stream.closing || stream.flow.may_send() == 0 || !line_.has_room()) return;
  stream.reading = true;
  const Weak weak = streams_.at(stream.number);
  stream.local.async_wait(StreamSocket::wait_read, [this, weak](error_code failure) {
    const auto alive = weak.lock();
    if (!alive || failure == asio::error::operation_aborted) return;
    alive->reading = false;
    on_readable(*alive);
  });
}

void TunnelLine::on_readable(Stream& stream) {
  if (stream.closing || !line_.has_room()) return;  // read_all() follows
  std::array<char, kMaxTunnelPiece> buffer;
  error_code failure;
  const std::size_t most = std::min(buffer.size(), stream.flow.may_send());
  const std::size_t size = stream.local.read_some(asio::buffer(buffer.data(), most), failure);
  if (failure && failure != asio::error::would_block) return close(stream.number);
  if (size > 0) {
    stream.flow.sent(size);
    line_.send(encode({stream.number, FrameKind::data, {buffer.data(), size}}));
  }
  read(stream);
}

void TunnelLine::read_all() {
  for (const auto& [number, stream] : streams_) read(*stream);
}

/// The other end is proven when this is first called.
void TunnelLine::on_drained() {
  read_all();
  const auto proven = std::exchange(hooks_.proven, nullptr);
  if (proven) proven();
}

void TunnelLine::write(Stream& stream) {
  error_code failure;
  std::size_t size = 0;
  if (!stream.unwritten.empty()) {
    size = stream.local.write_some(asio::buffer(stream.unwritten), failure);
  }
  if (failure && failure != asio::error::would_block) return close(stream.number);
  stream.unwritten.erase(0, size);
  if (const auto count = stream.flow.passed_on(size)) {
    line_.send(encode({stream.number, FrameKind::taken, {}, *count}));
  }
  if (!stream.unwritten.empty()) return write_later(stream);
  if (stream.closing) streams_.erase(stream.number);
}

void TunnelLine::write_later(Stream& stream) {
  const Weak weak = streams_.at(stream.number);
  stream.local.async_wait(StreamSocket::wait_write, [this, weak](error_code failure) {
    const auto alive = weak.lock();
    if (alive && failure != asio::error::operation_aborted) write(*alive);
  });
}

/// Closes the stream here, and tells the other end to.
void TunnelLine::close(Number number) {
  const auto stream = streams_.extract(number);
  if (!stream.mapped()->closing) line_.send(encode({number, FrameKind::close}));
}

void TunnelLine::fail(const Error& error) {
  const auto lost = std::move(hooks_.lost);  // calling it destroys this
  lost(error);
}

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

TunnelEnds::TunnelEnds(asio::any_io_executor executor, store::Server& store)
    : executor_(std::move(executor)), store_(store), log_(executor_) {}

void TunnelEnds::adopt(tcp::socket socket, std::string_view received, store::ConnectionSlot slot,
                       std::unique_ptr<SecureChannel> secure) {
  probe_when_idle(socket);
  const std::uint64_t number = ++last_;
  End& end = ends_[number];
  end.slot = std::move(slot);
  end.slot.on_eviction([this, number] { ends_.erase(number); });
  end.slot.is_member();
  const auto opened = [this](std::string_view bytes) -> std::optional<StreamSocket> {
    Result<StreamSocket> client = add_client(bytes);
    if (client) return std::move(*client);
    log_.warning("store: refused a worker: " + client.error().message);
    return std::nullopt;
  };
  end.line = std::make_unique<TunnelLine>(
      std::move(socket), received, std::move(secure),
      TunnelLine::Hooks{.opened = opened,
                        .lost = [this, number](const Error&) { ends_.erase(number); }});
}

Result<StreamSocket> TunnelEnds::add_client(std::string_view received) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return os_error("cannot make a pair of sockets", errno);
  }
  Fd theirs(ends[1]);
  error_code failure;
  asio::local::stream_protocol::socket ours(executor_);
  ours.assign(asio::local::stream_protocol(), ends[0], failure);
  if (failure) {
    close(ends[0]);
    return os_error("cannot use a pair of sockets", failure.value());
  }
  store_.adopt(std::move(theirs), received);
  return StreamSocket(std::move(ours));
}

void probe_when_idle(tcp::socket& socket) {
  const auto set = [fd = socket.native_handle()](int name, int value) {
    setsockopt(fd, IPPROTO_TCP, name, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 15);
  set(TCP_KEEPCNT, 6);
}

}  // namespace ddprun::rendezvous
