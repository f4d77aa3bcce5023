// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/error.h"
#include "base/limited_log.h"
#include "rendezvous/access/tunnel_flow.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/wire/control_connection.h"
#include "store/connection_slots.h"
#include "store/server.h"

namespace ddprun::rendezvous {

/// One end of a tunnel: passes bytes between its line and the local sockets of the connections that
/// it carries. Both ends are the same, except that one opens connections.
///
/// TunnelFlow::kWindow bounds a connection in each direction, ControlConnection's limit of unsent
/// bytes all of them: a socket is not read while there is no room. If a socket is closed at one
/// end, the other end closes its socket when it has passed on all bytes. (Halves are not closed: no
/// client of the store closes one.)
///
/// Destroying it closes all, and no hook is called any more.
/// Thread: the socket's executor's.
class TunnelLine {
 public:
  /// The most connections of one line.
  static constexpr std::size_t kMostConnections = 4096;

  struct Hooks {
    /// The other end opened a connection that begins with `bytes`: returns the socket for the rest;
    /// nullopt: close it. Empty: the other end may open none.
    std::function<std::optional<StreamSocket>(std::string_view bytes)> opened;
    /// The last hook called, which has to destroy this. Errors: as ControlConnection's.
    std::function<void(Error)> lost;
    /// Called once if this side began an encrypted line: the other end is proven. May be empty.
    std::function<void()> proven = nullptr;
  };

  /// `received` are the other end's bytes that were read before, decrypted.
  TunnelLine(StreamSocket socket, std::string_view received, std::unique_ptr<SecureChannel> secure,
             Hooks hooks);
  TunnelLine(const TunnelLine&) = delete;

  /// Sends the greeting, which comes before all frames.
  void greet(std::string_view greeting) { line_.send(greeting); }

  /// Opens a connection of `received`, 1 to kMaxTunnelPiece bytes, and all bytes that `local` sends
  /// after them. `slot` is its place at the port of this side.
  void carry(StreamSocket local, std::string_view received, store::ConnectionSlot slot);

  /// The number of connections.
  std::size_t count() const { return streams_.size(); }

 private:
  using Number = std::uint32_t;
  struct Stream {
    Stream(Number its_number, StreamSocket its_local)
        : number(its_number), local(std::move(its_local)) {}

    const Number number;
    StreamSocket local;
    TunnelFlow flow;
    std::string unwritten;  // for `local`
    bool reading = false;
    bool closing = false;  // as soon as all is written
    store::ConnectionSlot slot;
  };
  using Weak = std::weak_ptr<Stream>;

  void on_frame(std::string_view body);
  Result<> take(const TunnelFrame& frame);
  Result<> open(const TunnelFrame& frame);
  Result<> take_bytes(Stream& stream, std::string_view bytes);
  Stream& add(Number number, StreamSocket local);
  void read(Stream& stream);
  void on_readable(Stream& stream);
  void read_all();
  void on_drained();
  void write(Stream& stream);
  void write_later(Stream& stream);
  void close(Number number);
  void fail(const Error& error);

  Hooks hooks_;
  std::unordered_map<Number, std::shared_ptr<Stream>> streams_;
  Number last_ = 0;  // the last one opened
  ControlConnection line_;
};

/// The master's ends of all nodes' tunnels, whose connections are clients of the store. Each gets
/// one end of a pair of sockets, so the store treats it like any other.
///
/// Destroying it closes them. Thread: the executor's.
class TunnelEnds {
 public:
  /// `store` must outlive it.
  TunnelEnds(boost::asio::any_io_executor executor, store::Server& store);

  /// Takes the line of an agent that has proven that it knows the secret, and bytes read from it.
  void adopt(boost::asio::ip::tcp::socket socket, std::string_view received,
             store::ConnectionSlot slot, std::unique_ptr<SecureChannel> secure);

  /// Closes all: a new round has its own tunnels.
  void clear() { ends_.clear(); }

 private:
  struct End {
    store::ConnectionSlot slot;
    std::unique_ptr<TunnelLine> line;
  };

  Result<StreamSocket> add_client(std::string_view received);

  boost::asio::any_io_executor executor_;
  store::Server& store_;
  std::unordered_map<std::uint64_t, End> ends_;
  std::uint64_t last_ = 0;
  log::LimitedLog log_;
};

/// Makes the kernel probe whether the other host of a tunnel is still there.
void probe_when_idle(boost::asio::ip::tcp::socket& socket);

}  // namespace ddprun::rendezvous
