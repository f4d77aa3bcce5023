// SPDX-License-Identifier: Apache-2.0
// Tests the whole way from a worker's socket through its node's agent to the master's store.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "rendezvous/access/tunnel_flow.h"
#include "rendezvous/session/local_store_proxy.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/rendezvous/session/network.h"
#include "tests/rendezvous/session/world.h"
#include "tests/store/bytes.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
namespace asio = boost::asio;
namespace bytes = ddprun::store::bytes;

namespace {

/// A master whose store is reached through tunnels alone, and a node whose line the test can break.
struct TunnelWorld : World {
  TunnelWorld() {
    security = must(Security::of_job(Secret("our secret"), "job"));
    tunnels_only = true;
  }

  void open(const Endpoint& master, Server* hosted = nullptr) {
    entrance = std::make_unique<LocalStoreProxy>(
        io.get_executor(), LocalStoreProxy::Options{[this] { return security; }, std::nullopt,
                                                    [this] {
                                                      ++dials;
                                                      return master_;
                                                    },
                                                    [this, hosted] {
                                                      ++admitted;
                                                      return hosted;
                                                    }});
    master_ = master;
    must(entrance->open());
  }

  std::unique_ptr<Peer> worker() {
    asio::ip::tcp::socket socket(io);
    socket.connect({asio::ip::address_v4::loopback(), entrance->address().port});
    return std::make_unique<Peer>(*this, std::move(socket));
  }

  /// The store's answer to `request`, when `size` bytes have come.
  std::string reply(Peer& worker, const std::string& request, std::size_t size) {
    worker.send(request);
    until([&] { return worker.received.size() >= size || worker.closed; });
    return std::exchange(worker.received, {});
  }

  /// The same for more bytes than the kernel holds: writes and reads as much as it can.
  std::string reply_to_large(std::string request, std::size_t size) {
    asio::ip::tcp::socket socket(io);
    socket.connect({asio::ip::address_v4::loopback(), entrance->address().port});
    socket.non_blocking(true);
    std::string received, piece(1 << 20, '\0');
    until([&] {
      boost::system::error_code wait;
      request.erase(0, socket.write_some(asio::buffer(request), wait));
      received.append(piece, 0, socket.read_some(asio::buffer(piece), wait));
      return received.size() >= size;
    });
    return received;
  }

  std::unique_ptr<LocalStoreProxy> entrance;
  Endpoint master_;
  int dials = 0;     // attempts to reach it
  int admitted = 0;  // workers
};

const std::string kAsk = bytes::kHello + bytes::add("count", 1);

}  // namespace

TEST_CASE("tunnel: only workers that come through it can use the store") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  world.open(world.endpoint());
  const auto one = world.worker();
  const auto two = world.worker();
  CHECK(world.reply(*one, kAsk, 8) == bytes::integer(1));
  CHECK(world.reply(*two, kAsk, 8) == bytes::integer(2));
  Peer direct(world);
  direct.send(kAsk);
  world.until([&] { return direct.closed; });
  CHECK(direct.received.empty());
  CHECK(world.logged("workers of this job come through their node's agent (--store tunnel)"));
}

TEST_CASE("tunnel: in the master's own process the entrance leads to the store") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  world.open({"127.0.0.1", 1}, world.server.get());
  CHECK(world.reply(*world.worker(), kAsk, 8) == bytes::integer(1));
}

TEST_CASE("tunnel: values of many windows pass in both directions") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  world.open(world.endpoint());
  const std::string value(20 * TunnelFlow::kWindow, 'v');
  const std::string request = bytes::kHello + bytes::set("large", value) + bytes::get("large");
  CHECK(world.reply_to_large(request, 8 + value.size()) == bytes::text(value));
}

TEST_CASE("tunnel: a client that breaks the store's protocol is closed") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  world.open(world.endpoint());
  const auto wrong = world.worker();
  wrong->send(bytes::kHello + "\xFF");
  world.until([&] { return wrong->closed; });
}

TEST_CASE("tunnel: if it breaks, its clients are closed, and the next ones get a new tunnel") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  Network network(world);
  world.open(network.endpoint());
  const auto before = world.worker();
  CHECK(world.reply(*before, kAsk, 8) == bytes::integer(1));
  network.reset();
  world.until([&] { return before->closed; });
  CHECK(world.logged("1 connections of workers are closed"));
  CHECK(world.reply(*world.worker(), kAsk, 8) == bytes::integer(2));
  CHECK(network.connections() == 2);
}

TEST_CASE("tunnel: a worker that comes before the master waits") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  const Endpoint master = world.endpoint();
  world.server.reset();
  world.open(master);
  log::set_level(log::Level::debug);
  const auto worker = world.worker();
  worker->send(kAsk);
  world.until([&] { return world.logged("no tunnel to"); });
  log::set_level(log::Level::info);
  world.start_server(nodes(2, 2));
  world.until([&] { return worker->received.size() >= 8; });
  CHECK(!worker->closed);
}

TEST_CASE("tunnel: workers that come while the master is dialed wait for that attempt") {
  TunnelWorld world;
  asio::ip::tcp::acceptor full(world.io);
  full.open(asio::ip::tcp::v4());
  full.bind({asio::ip::address_v4::loopback(), 0});
  full.listen(0);  // room for one
  asio::ip::tcp::socket first(world.io);
  first.connect(full.local_endpoint());
  world.open({"127.0.0.1", full.local_endpoint().port()});
  const auto one = world.worker();
  const auto two = world.worker();
  one->send(kAsk);
  two->send(kAsk);
  world.until([&] { return world.admitted == 2; });
  CHECK(world.dials == 1);
}

TEST_CASE("tunnel: a break before the proof costs no worker its connection") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  asio::ip::tcp::acceptor busy(world.io, {asio::ip::address_v4::loopback(), 0});
  world.open({"127.0.0.1", busy.local_endpoint().port()});
  busy.async_accept([&world](boost::system::error_code, const asio::ip::tcp::socket&) {
    world.master_ = world.endpoint();  // and the connection is closed
  });
  const auto worker = world.worker();
  CHECK(world.reply(*worker, kAsk, 8) == bytes::integer(1));
  CHECK(!worker->closed);
}

TEST_CASE("tunnel: a new round closes the old connections and has its own tunnel") {
  TunnelWorld world;
  world.start_server(nodes(2, 2));
  Network network(world);
  world.open(network.endpoint());
  const auto before = world.worker();
  CHECK(world.reply(*before, kAsk, 8) == bytes::integer(1));
  world.entrance->begin_round();
  world.until([&] { return before->closed; });
  CHECK(world.reply(*world.worker(), kAsk, 8) == bytes::integer(2));

  network.stall();  // the old master hangs
  world.master_ = world.endpoint();
  world.entrance->begin_round();
  CHECK(world.reply(*world.worker(), kAsk, 8) == bytes::integer(3));
}
