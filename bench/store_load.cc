// SPDX-License-Identifier: Apache-2.0
#include "bench/store_load.h"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/byte_order.h"

namespace ddprun::bench {
namespace {

using store::RequestType;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kValueSize = 64;
constexpr int kTurn = 16;  // requests without reply, then the next client has its turn

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::perror(what);
  std::exit(1);
}

std::string integer(std::uint64_t number) {
  std::string out;
  append_little_endian(out, number, 8);
  return out;
}

std::string text(const std::string& content) {
  return integer(content.size()) + content;
}

}  // namespace

StoreLoad::StoreLoad(std::uint16_t port, store::Dialect dialect, int count, bool by_ipv4)
    : legacy_(dialect == store::Dialect::legacy), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  require(static_cast<bool>(epoll_), "epoll_create1");
  const std::string hello =
      legacy_ ? add_request("init/")
              : std::string(store::kStoreGreeting) + type(RequestType::ping) + "pid!";
  const std::size_t reply = legacy_ ? 8 : 4;

  // The kernel drops connections from a full backlog, and these are retried later, which would be
  // measured: so connects no more than this many at once.
  constexpr int kTogether = 256;
  const auto start = Clock::now();
  clients_.reserve(static_cast<std::size_t>(count));
  while (static_cast<int>(clients_.size()) < count) {
    const std::size_t first = clients_.size();
    for (int i = 0; i < kTogether && static_cast<int>(clients_.size()) < count; ++i) {
      connect_one(port, by_ipv4);
    }
    run([&](std::size_t i, int step) -> std::optional<Exchange> {
      if (i < first || step > 0) return std::nullopt;
      return Exchange{hello, reply};
    });
  }
  connect_seconds_ = seconds_since(start);
}

void StoreLoad::connect_one(std::uint16_t port, bool by_ipv4) {
  Client client;
  // IPv6, because PyTorch's server looks up the name of each client. It finds ::1 in /etc/hosts,
  // but asks the network for the mapped address of an IPv4 client.
  client.socket.reset(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  require(static_cast<bool>(client.socket), "socket");
  const int on = 1;
  setsockopt(client.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  address.sin6_addr = in6addr_loopback;
  if (by_ipv4) inet_pton(AF_INET6, "::ffff:127.0.0.1", &address.sin6_addr);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  require(connect(client.socket.get(), generic, sizeof address) == 0, "connect");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = clients_.size();
  const int added = epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, client.socket.get(), &event);
  require(added == 0, "epoll_ctl");
  clients_.push_back(std::move(client));
}

double StoreLoad::run(const Script& script) {
  const auto start = Clock::now();
  std::size_t running = clients_.size();
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    clients_[i].step = 0;
    ready_.push_back(i);
  }
  std::array<epoll_event, 256> events;
  while (running > 0) {
    for (std::size_t turns = ready_.size(); turns > 0; --turns) {
      const std::size_t i = ready_.front();
      ready_.pop_front();
      if (!advance(i, script)) --running;
    }
    if (running == 0) break;
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 ready_.empty() ? -1 : 0);
    for (int n = 0; n < count; ++n) {
      const std::size_t i = events[static_cast<std::size_t>(n)].data.u64;
      if (events[static_cast<std::size_t>(n)].events & EPOLLOUT) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.u64 = i;
        epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, clients_[i].socket.get(), &event);
        ready_.push_back(i);
      } else {
        receive(i);
      }
    }
  }
  return seconds_since(start);
}

// False: the client is done.
bool StoreLoad::advance(std::size_t i, const Script& script) {
  Client& client = clients_[i];
  for (int turn = 0; turn < kTurn; ++turn) {
    if (client.unsent.empty()) {
      auto exchange = script(i, client.step++);
      if (!exchange) return false;
      client.unsent = std::move(exchange->request);
      client.missing = exchange->reply;
      client.reply.clear();
    }
    if (!flush(i) || client.missing > 0) return true;
  }
  ready_.push_back(i);
  return true;
}

// False: the kernel takes no more for now.
bool StoreLoad::flush(std::size_t i) {
  Client& client = clients_[i];
  const ssize_t sent = send(client.socket.get(), client.unsent.data(), client.unsent.size(),
                            MSG_NOSIGNAL | MSG_DONTWAIT);
  require(sent >= 0 || errno == EAGAIN, "send");
  if (sent > 0) client.unsent.erase(0, static_cast<std::size_t>(sent));
  if (client.unsent.empty()) return true;
  epoll_event event{};
  event.events = EPOLLOUT;
  event.data.u64 = i;
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, client.socket.get(), &event);
  return false;
}

void StoreLoad::receive(std::size_t i) {
  Client& client = clients_[i];
  std::array<char, 256> buffer;
  const ssize_t size = recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  require(size > 0 && static_cast<std::size_t>(size) <= client.missing, "recv");
  client.reply.append(buffer.data(), static_cast<std::size_t>(size));
  client.missing -= static_cast<std::size_t>(size);
  if (client.missing == 0) ready_.push_back(i);
}

double StoreLoad::set(int each) {
  const std::string value(kValueSize, 'v');
  return run([&](std::size_t i, int step) -> std::optional<Exchange> {
    if (step < each) return Exchange{set_request("/k" + std::to_string(i), value), 0};
    if (step == each) return Exchange{type(RequestType::get_num_keys), 8};
    return std::nullopt;
  });
}

double StoreLoad::get(int each) {
  return run([&](std::size_t i, int step) -> std::optional<Exchange> {
    const std::string key = "/k" + std::to_string(i);
    if (step >= 2 * each) return std::nullopt;
    if (step % 2 == 0) return Exchange{wait_request(key), 1};
    return Exchange{key_request(RequestType::get, key), 8 + kValueSize};
  });
}

double StoreLoad::add(int each) {
  return run([&](std::size_t i, int step) -> std::optional<Exchange> {
    if (step >= each) return std::nullopt;
    return Exchange{add_request("/c" + std::to_string(i)), 8};
  });
}

void StoreLoad::fill(int keys) {
  const std::string value(kValueSize, 'v');
  const auto clients = static_cast<int>(clients_.size());
  run([&](std::size_t i, int step) -> std::optional<Exchange> {
    const int each = (keys + clients - 1) / clients;
    if (step < each) {
      const auto number = i * static_cast<std::size_t>(each) + static_cast<std::size_t>(step);
      return Exchange{set_request("/key" + std::to_string(number), value), 0};
    }
    if (step == each) return Exchange{type(RequestType::get_num_keys), 8};
    return std::nullopt;
  });
}

void StoreLoad::wait_for_end() {
  for (const Client& client : clients_) {
    char byte = 0;
    require(recv(client.socket.get(), &byte, 1, 0) <= 0, "recv");
  }
}

double StoreLoad::barrier() {
  const std::string all = integer(clients_.size());
  return run([&](std::size_t i, int step) -> std::optional<Exchange> {
    if (step == 0) return Exchange{add_request("/barrier"), 8};
    if (step > 1) return std::nullopt;
    const bool last = clients_[i].reply == all;
    return Exchange{(last ? set_request("/done", "1") : "") + wait_request("/done"), 1};
  });
}

std::string StoreLoad::type(store::RequestType request) const {
  const auto number = static_cast<int>(request);
  return {static_cast<char>(legacy_ ? number - 1 : number)};  // true of all types used here
}

std::string StoreLoad::key_request(store::RequestType request, const std::string& key) const {
  return type(request) + text(key);
}

std::string StoreLoad::set_request(const std::string& key, const std::string& value) const {
  return key_request(RequestType::set, key) + text(value);
}

std::string StoreLoad::add_request(const std::string& key) const {
  return key_request(RequestType::add, key) + integer(1);
}

std::string StoreLoad::wait_request(const std::string& key) const {
  return type(RequestType::wait) + integer(1) + text(key);
}

}  // namespace ddprun::bench
