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

#include "base/error.h"
#include "rendezvous/access/tunnel_flow.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/wire/control_connection.h"
#include "rendezvous/wire/tunnel_frames.h"
#include "store/guests.h"

namespace ddprun::rendezvous {

/// One end of a tunnel: passes bytes between its line and the local sockets of the connections that
/// it carries. Both ends are the same, but for who opens connections.
///
/// Bounded: a connection by TunnelFlow::kWindow in each direction, all together by what
/// ControlConnection keeps unsent; a socket is not read while there is no room. A socket that is
/// closed at one end is closed at the other when what came before it is passed on. (Halves are not:
/// no client of the store closes one.)
///
/// Destroying it closes all, and no hook is called any more.
/// Thread: the socket's executor's.
class TunnelLine {
 public:
  /// The most connections of one line.
  static constexpr std::size_t kMostConnections = 4096;

  struct Hooks {
    /// The other end opened a connection that begins with `bytes`: the socket for what follows;
    /// nullopt: it is closed. Empty: the other end may open none.
    std::function<std::optional<StreamSocket>(std::string_view bytes)> opened;
    /// The last hook called, which has to destroy this. Errors: as ControlConnection's.
    std::function<void(Error)> lost;
    /// Once, of an encrypted line that this side began: the other end is proven. May be empty.
    std::function<void()> proven = nullptr;
  };

  /// `received` are decrypted bytes of the other end that were read before.
  TunnelLine(StreamSocket socket, std::string_view received, std::unique_ptr<SecureChannel> secure,
             Hooks hooks);
  TunnelLine(const TunnelLine&) = delete;

  /// Sends the greeting, which comes before all frames.
  void greet(std::string_view greeting) { line_.send(greeting); }

  /// Opens a connection that begins with `received`, 1 to kMaxTunnelPiece bytes, and goes on with
  /// what `local` says. `guest` is its place at the port of this side.
  void carry(StreamSocket local, std::string_view received, store::Guest guest);

  /// How many connections there are.
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
    bool closing = false;  // when all is written
    store::Guest guest;
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
  Number last_ = 0;  // that was opened
  ControlConnection line_;
};

}  // namespace ddprun::rendezvous
