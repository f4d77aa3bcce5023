// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/gloo/peer_watch.h"

#include <thread>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

}  // namespace

PeerWatch::PeerWatch(const std::string& address)
    : acceptor_(context_, tcp::endpoint(asio::ip::make_address(address), 0)) {}

void PeerWatch::release_to(tcp::acceptor& other) {
  const tcp protocol = endpoint().protocol();
  other.assign(protocol, acceptor_.release());
}

void PeerWatch::during(const std::function<void()>& work, const Callbacks& callbacks,
                       const std::vector<Peer>& peers, std::chrono::milliseconds limit) {
  bool called = false;
  const auto lose = [&](int rank, const std::string& reason) {
    if (!std::exchange(called, true)) callbacks.lost(rank, reason);
  };
  asio::io_context context{1};
  std::vector<tcp::socket> sockets;
  sockets.reserve(peers.size());
  for (const Peer& peer : peers) {
    tcp::socket& socket = sockets.emplace_back(context);
    socket.async_connect(peer.endpoint, [&lose, &peer, &socket](const error_code& error) {
      if (error) return lose(peer.rank, error.message());
      error_code ignored;  // reading finds it
      socket.write_some(asio::buffer(&peer.greeting, sizeof(peer.greeting)), ignored);
      socket.async_wait(tcp::socket::wait_read, [&lose, &peer](const error_code&) {
        lose(peer.rank, "its process ended");  // peers never send
      });
    });
  }
  asio::steady_timer timer(context, limit);
  timer.async_wait([&](const error_code&) {
    if (!std::exchange(called, true)) callbacks.timed_out();
  });
  std::thread worker = signal_masked_thread([&] {
    work();
    context.stop();
  });
  context.run();
  worker.join();
}

}  // namespace ddp::internal
