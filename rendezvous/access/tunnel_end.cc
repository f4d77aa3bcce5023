// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/tunnel_end.h"

#include <cerrno>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

TunnelEnds::TunnelEnds(asio::any_io_executor executor, store::Server& store)
    : executor_(std::move(executor)), store_(store), log_(executor_) {}

void TunnelEnds::adopt(tcp::socket socket, std::string_view received, store::Guest guest,
                       std::unique_ptr<SecureChannel> secure) {
  probe_when_idle(socket);
  const std::uint64_t number = ++last_;
  End& end = ends_[number];
  end.guest = std::move(guest);
  end.guest.on_eviction([this, number] { ends_.erase(number); });
  end.guest.is_member();
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
