// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/session/world.h"

#include <algorithm>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "base/log.h"
#include "rendezvous/net/addresses.h"
#include "tests/must.h"

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::chrono::seconds kDeadline{300};  // long enough on a loaded machine

}  // namespace

World::World() {
  log::set_writer([this](std::string_view line) { log.emplace_back(line); });
}

World::World(const RoundSpec& spec, std::chrono::milliseconds lease) : World() {
  start_server(spec, lease);
}

World::~World() {
  log::set_writer({});
}

void World::start_server(const RoundSpec& spec, std::chrono::milliseconds lease) {
  Server::Options options;
  options.run_id = "job";
  options.round = spec;
  options.confirm_clients = confirm_clients;
  options.tunnels_only = tunnels_only;
  options.heartbeat = kSoon;
  options.lease = lease;
  options.loss_text = [](const Failure& failure) {
    return "rank " + std::to_string(failure.rank) + " is lost, in words";
  };
  options.security = security;
  options.sealed_secret = sealed_secret;
  server = must(Server::listen(io.get_executor(), must(resolve(endpoint())), std::move(options)));
  port = server->address().port();
}

void World::until(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (!condition()) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    io.restart();
    io.run_one_for(std::chrono::seconds(1));
  }
}

void World::settle() {
  io.restart();
  while (io.poll() > 0) io.restart();
}

bool World::logged(const std::string& text) const {
  return std::any_of(log.begin(), log.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

RoundSpec nodes(int min, int max) {
  RoundSpec spec;
  spec.min_nodes = min;
  spec.max_nodes = max;
  spec.last_call = std::chrono::milliseconds(0);
  return spec;
}

Client::Options Member::options(const std::string& name, const Endpoint& server) {
  Client::Options options;
  options.server = server;
  options.run_id = "job";
  options.min_nodes = options.max_nodes = 2;
  options.host = name;
  return options;
}

Member::Member(World& world, Client::Options options)
    : world_(world),
      name_(options.host),
      client(world.io.get_executor(), std::move(options),
             [this](const NodeEvent& event) { on(event); }) {
  request.host = name_;
}

void Member::join(int local_size) {
  request.local_size = local_size;
  client.join(request);
}

void Member::fail(int round) {
  Failure failure;
  failure.pid = 1;
  failure.wait_status = 3 << 8;
  failure.host = name_;
  client.fail(round, failure);
}

void Member::on(const NodeEvent& event) {
  const auto note = [this](const std::string& what) {
    world_.history.push_back(name_ + ": " + what);
  };
  if (const auto* welcomed = std::get_if<node_event::Welcomed>(&event)) {
    welcomes.push_back(welcomed->welcome);
  } else if (const auto* notified = std::get_if<node_event::Notified>(&event)) {
    note("notification");
    on_notification(notified->notification);
  } else if (const auto* waits = std::get_if<node_event::WaitingFor>(&event)) {
    waiting.push_back(waits->sentence);
  } else if (const auto* changed = std::get_if<node_event::ConnectionChanged>(&event)) {
    connection_changes.push_back(changed->sentence);
  } else if (const auto* renewed = std::get_if<node_event::LeaseRenewed>(&event)) {
    leases.push_back(renewed->until);
  } else if (std::holds_alternative<node_event::LeaseOver>(event)) {
    note("lease over");
    ++leases_over;
  } else if (const auto* lost = std::get_if<node_event::RoundLost>(&event)) {
    note("round lost");
    rounds_lost.push_back(lost->reason);
  } else if (const auto* counted = std::get_if<node_event::FailureCounted>(&event)) {
    note("restart " + std::to_string(counted->restarts) + " for rank " +
         std::to_string(counted->failure.rank));
  } else if (const auto* given_up = std::get_if<node_event::GaveUp>(&event)) {
    gave_up = given_up->error;
  }
}

void Member::on_notification(Notification notification) {
  if (const auto* ready = std::get_if<Ready>(&notification)) {
    request.last_round = ready->layout.round;
    request.last_node_rank = ready->layout.node_rank;
    request.last_guests = ready->layout.guests;
    request.restarts = ready->layout.restarts;
  }
  if (const auto* broken = std::get_if<Broken>(&notification)) request.restarts = broken->restarts;
  notifications.push_back(std::move(notification));
}

Peer::Peer(World& world) : Peer(world, tcp::socket(world.io)) {}

Peer::Peer(World& world, tcp::socket socket) : world_(world), socket_(std::move(socket)) {
  if (!socket_.is_open()) {
    socket_.connect({asio::ip::address_v4::loopback(), world.port});
  }
  read();
}

void Peer::read() {
  socket_.async_read_some(asio::buffer(buffer_),
                          [this, alive = std::weak_ptr(alive_)](error_code failure, size_t size) {
                            if (alive.expired()) return;
                            received.append(buffer_.data(), size);
                            closed = failure.failed();
                            if (!failure) read();
                          });
}

void Peer::send(const std::string& bytes) {
  asio::write(socket_, asio::buffer(bytes));
}

void Peer::introduce(const std::string& session, int nodes, std::uint64_t notifications) {
  send(greeting() + encode(message::Hello{"job", nodes, nodes, "peer", session, notifications, "",
                                          ++world_.hellos}));
}

void Peer::join(int local_size) {
  JoinRequest request;
  request.host = "peer";
  request.local_size = local_size;
  say(message::Join{request});
}

std::string Peer::next_body() {
  FrameReader frames;
  std::optional<std::string> body;
  world_.until([&] {
    frames = FrameReader();
    frames.feed(received);
    body = must(frames.next());
    return body.has_value();
  });
  received.erase(0, 4 + body->size());
  return *body;
}

message::Hello Peer::greeted() {
  world_.until([this] { return received.size() >= kGreetingSize; });
  CHECK(greeted_version(received) == kProtocolVersion);
  received.erase(0, kGreetingSize);
  return next_message<message::Hello>();
}

void Peer::close() {
  socket_.close();
}

void Peer::end() {
  socket_.shutdown(tcp::socket::shutdown_send);
}

}  // namespace ddprun::rendezvous
