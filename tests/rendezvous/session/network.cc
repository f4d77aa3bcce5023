// SPDX-License-Identifier: Apache-2.0
#include "tests/rendezvous/session/network.h"

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

tcp::endpoint any_port() {
  return {asio::ip::address_v4::loopback(), 0};
}

Endpoint where(const tcp::acceptor& acceptor) {
  return {"127.0.0.1", acceptor.local_endpoint().port()};
}

}  // namespace

ListenSocket::ListenSocket(World& world) : world_(world), acceptor_(world.io, any_port()) {}

Endpoint ListenSocket::endpoint() const {
  return where(acceptor_);
}

std::unique_ptr<Peer> ListenSocket::next() {
  std::unique_ptr<Peer> peer;
  acceptor_.async_accept([&](error_code failure, tcp::socket socket) {
    if (!failure) peer = std::make_unique<Peer>(world_, std::move(socket));
  });
  world_.until([&] { return peer != nullptr; });
  return peer;
}

/// One direction of a connection.
struct Network::Way {
  Link& link;
  tcp::socket& from;
  tcp::socket& to;
  std::array<char, 4096> buffer{};
  std::string waiting{};  // stalled
  bool ended = false;     // closed by the sender
};

struct Network::Link {
  enum class State { passing, stalled, swallowing };

  explicit Link(tcp::socket member_end)
      : member(std::move(member_end)),
        server(member.get_executor()),
        there{*this, member, server},
        back{*this, server, member} {}

  State state = State::passing;
  tcp::socket member;
  tcp::socket server;
  Way there;
  Way back;
};

Network::Network(World& world) : world_(world), acceptor_(world.io, any_port()) {
  accept();
}

Network::~Network() = default;

Endpoint Network::endpoint() const {
  return where(acceptor_);
}

void Network::accept() {
  acceptor_.async_accept(
      [this, alive = std::weak_ptr(alive_)](error_code failure, tcp::socket socket) {
        if (failure || alive.expired()) return;
        links_.push_back(std::make_shared<Link>(std::move(socket)));
        Link& link = *links_.back();
        link.state = stalled_ ? Link::State::stalled : Link::State::passing;
        read(links_.back(), link.there);
        if (!stalled_) connect(link);
        accept();
      });
}

void Network::connect(Link& link) {
  error_code refused;
  link.server.connect({asio::ip::address_v4::loopback(), world_.port}, refused);
  if (refused) return link.member.close();
  for (const auto& owner : links_) {
    if (owner.get() == &link) read(owner, link.back);
  }
}

void Network::read(const std::shared_ptr<Link>& link, Way& way) {
  way.from.async_read_some(
      asio::buffer(way.buffer),
      [this, link, &way, alive = std::weak_ptr(alive_)](error_code failure, size_t size) {
        if (alive.expired() || failure == asio::error::operation_aborted) return;
        way.waiting.append(way.buffer.data(), size);
        way.ended = failure.failed();
        if (link->state == Link::State::passing) pass(way);
        if (link->state == Link::State::swallowing) way.waiting.clear();
        if (!failure) read(link, way);
      });
}

void Network::pass(Way& way) {
  error_code broken;  // the kernel reports it to the reader
  if (way.to.is_open()) asio::write(way.to, asio::buffer(way.waiting), broken);
  way.waiting.clear();
  if (way.ended) way.to.close(broken);
}

void Network::stall() {
  stalled_ = true;
  for (const auto& link : links_) {
    if (link->state == Link::State::passing) link->state = Link::State::stalled;
  }
}

void Network::heal() {
  stalled_ = false;
  for (size_t i = 0; i < links_.size(); ++i) heal(i);
}

void Network::heal(size_t connection) {
  Link& link = *links_.at(connection);
  if (link.state != Link::State::stalled) return;
  link.state = Link::State::passing;
  if (!link.server.is_open()) connect(link);
  pass(link.there);
  pass(link.back);
}

void Network::swallow() {
  for (const auto& link : links_) link->state = Link::State::swallowing;
}

void Network::break_members_ends() {
  swallow();
  for (const auto& link : links_) link->member.close();
}

void Network::reset_servers_ends() {
  swallow();
  for (const auto& link : links_) reset(link->server);
}

void Network::reset() {
  reset_servers_ends();
  for (const auto& link : links_) reset(link->member);
}

void Network::reset(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace ddprun::rendezvous
