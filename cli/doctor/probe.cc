// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/blocking_io.h"
#include "base/byte_order.h"
#include "base/secret.h"
#include "base/signal_masked_thread.h"

namespace ddprun::doctor {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr size_t kTokenBytes = 32;  // a random_name
constexpr int kMostGuests = 1024;   // connections at a time
constexpr int kPings = 5;
constexpr auto kConnectLimit = 4s;  // a kernel answers even on a busy host
constexpr auto kAnswerLimit = 30s;  // a process may have to wait for a CPU
constexpr auto kSendingTime = 500ms;
constexpr size_t kMostSent = 64 << 20;
constexpr auto kLoadTime = 5s;
constexpr int kLoadConnections = 4;  // one does not fill a fast network
constexpr auto kLookInterval = 100ms;
/// After so many retransmissions without progress, packets count as lost.
constexpr std::uint32_t kLostPackets = 3;

// A guest's request after the token.
constexpr char kAskClock = 'c';  // answer: the wall clock in ns, big-endian
constexpr char kAskSink = 's';   // read what follows to its end; answer: one byte

using Number = std::array<char, sizeof(std::int64_t)>;

std::int64_t wall_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string bytes_of(std::int64_t value) {
  std::string bytes;
  append_big_endian(bytes, static_cast<std::uint64_t>(value), sizeof value);
  return bytes;
}

std::int64_t number_of(const Number& bytes) {
  return static_cast<std::int64_t>(big_endian({bytes.data(), bytes.size()}));
}

void sink(const Fd& socket) {
  std::array<char, 1 << 16> bytes;
  const auto deadline = Clock::now() + kAnswerLimit;
  for (size_t size = 1; size != 0;) {
    if (receive_some(socket, bytes, deadline, size) != 0) return;
  }
  send_all(socket, ".", deadline);
}

/// Answers the requests of one guest.
void answer(const Fd& socket, const std::string& token) {
  const auto deadline = Clock::now() + 2 * kAnswerLimit;
  std::array<char, kTokenBytes> said;
  if (receive_all(socket, said, deadline) != 0) return;
  if (std::string_view(said.data(), said.size()) != token) return;
  if (send_all(socket, token, deadline) != 0) return;
  for (char question = 0; receive_all(socket, {&question, 1}, deadline) == 0;) {
    if (question == kAskSink) return sink(socket);
    if (question != kAskClock || send_all(socket, bytes_of(wall_clock()), deadline) != 0) return;
  }
}

/// Answers all guests, each on a thread.
void answer_all(const Fd& listener, const std::string& token) {
  const auto guests = std::make_shared<std::atomic<int>>(0);
  for (;;) {
    auto guest = std::make_shared<Fd>(
        accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!*guest && errno != EINTR && errno != ECONNABORTED) {
      pollfd nothing{-1, 0, 0};
      poll(&nothing, 1, 10);  // no descriptor is left for a moment
    }
    if (!*guest || *guests >= kMostGuests) continue;
    ++*guests;
    try {
      signal_masked_thread([guest, guests, token] {
        answer(*guest, token);
        --*guests;
      }).detach();
    } catch (const std::system_error&) {  // no thread is left, as in a container
      --*guests;
    }
  }
}

/// Listens at every address, of IPv6 and IPv4 if the host has both.
Fd listen_everywhere() {
  Fd socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int off = 0;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  if (socket) setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const auto* six_address = reinterpret_cast<const sockaddr*>(&six);
  if (!socket || bind(socket.get(), six_address, sizeof six) != 0) {
    socket.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in four{};
    four.sin_family = AF_INET;
    const auto* four_address = reinterpret_cast<const sockaddr*>(&four);
    if (!socket || bind(socket.get(), four_address, sizeof four) != 0) return Fd();
  }
  return ::listen(socket.get(), kMostGuests) == 0 ? std::move(socket) : Fd();
}

std::uint16_t port_of(const Fd& socket) {
  sockaddr_in6 address{};
  socklen_t size = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);  // sin_port is at the same place
}

std::string text_of(int error) {
  return std::generic_category().message(error == ENODATA ? ECONNRESET : error);
}

/// Connects and shows the token. On failure returns no socket, and sets the link's error.
Fd open_link(Link& link, const Facts& facts) {
  const auto connected_by = Clock::now() + kConnectLimit;
  const Result<AddressList> addresses =
      resolve(link.address, static_cast<std::uint16_t>(facts.port));
  Fd socket;
  int error = addresses ? connect_to(**addresses, connected_by, socket) : 0;
  if (!addresses) link.error = addresses.error().message;
  if (error != 0) link.error = text_of(error);
  if (!link.error.empty()) return Fd();
  const auto deadline = Clock::now() + kAnswerLimit;
  std::string echo(facts.token.size(), '\0');
  error = send_all(socket, facts.token, deadline);
  if (error == 0) error = receive_all(socket, echo, deadline);
  if (error == 0 && echo == facts.token) return socket;
  link.error = error == ETIMEDOUT ? "connected, but no answer" : "another program answers there";
  return Fd();
}

/// Compares clocks by the shortest of several round trips. Returns 0 or an errno.
int ask_clock(const Fd& socket, Link& link) {
  double shortest = HUGE_VAL;
  for (int i = 0; i < kPings; ++i) {
    const auto deadline = Clock::now() + kAnswerLimit;
    const std::int64_t sent_at = wall_clock();
    const auto sent = Clock::now();
    Number bytes;
    if (const int error = send_all(socket, {&kAskClock, 1}, deadline)) return error;
    if (const int error = receive_all(socket, bytes, deadline)) return error;
    const auto taken = std::chrono::duration<double>(Clock::now() - sent).count();
    if (taken >= shortest) continue;
    shortest = taken;
    link.round_trip = taken * 1e3;
    link.clock_ahead = static_cast<double>(number_of(bytes) - sent_at) / 1e9 - taken / 2;
  }
  return 0;
}

void ask_path_mtu(const Fd& socket, Link& link) {
  int mtu = -1;
  socklen_t size = sizeof mtu;
  if (getsockopt(socket.get(), IPPROTO_IP, IP_MTU, &mtu, &size) == 0 ||
      getsockopt(socket.get(), IPPROTO_IPV6, IPV6_MTU, &mtu, &size) == 0) {
    link.path_mtu = mtu;
  }
}

tcp_info info_of(const Fd& socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &size);
  return info;
}

/// Sends for `time`, at most `most` bytes. Returns the number of bytes.
size_t flood(const Fd& socket, Clock::duration time, size_t most) {
  const std::string bytes(1 << 18, 'x');
  const auto end = Clock::now() + time;
  size_t sent = 0;
  while (sent < most && wait_for(socket.get(), POLLOUT, end) == 0) {
    const ssize_t size = send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN && errno != EINTR) break;
    sent += static_cast<size_t>(std::max<ssize_t>(size, 0));
  }
  shutdown(socket.get(), SHUT_WR);
  return sent;
}

/// Waits for the answer to all sent bytes. Returns false if it will not come: the kernel sends the
/// same packets again and again.
bool wait_for_sink(const Fd& socket) {
  const auto deadline = Clock::now() + kAnswerLimit;
  while (wait_for(socket.get(), POLLIN, std::min(deadline, Clock::now() + kLookInterval)) != 0) {
    if (info_of(socket).tcpi_retransmits >= kLostPackets || Clock::now() >= deadline) return false;
  }
  char byte = 0;
  return receive_all(socket, {&byte, 1}, deadline) == 0;
}

void ask_bandwidth(const Fd& socket, Link& link, Clock::duration time = kSendingTime,
                   size_t most = kMostSent) {
  const auto begin = Clock::now();
  if (send_all(socket, {&kAskSink, 1}, begin + kAnswerLimit) != 0) return;
  const size_t sent = flood(socket, time, most);
  link.is_measured = true;
  link.lost_large = !wait_for_sink(socket);
  const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
  link.mbits_per_second = static_cast<double>(sent) * 8 / 1e6 / taken;
}

std::pair<Link, Fd> connect_link(int from, const Target& target, const Facts& facts) {
  Link link;
  link.from = from;
  link.to = target.node;
  link.use = target.use;
  link.address = target.address;
  Fd socket = open_link(link, facts);
  const int error = socket ? ask_clock(socket, link) : 0;
  if (error != 0) link.error = text_of(error);
  if (!link.error.empty()) return {std::move(link), Fd()};
  return {std::move(link), std::move(socket)};
}

}  // namespace

Result<Answerer> Answerer::listen() {
  auto listener = std::make_shared<Fd>(listen_everywhere());
  if (!*listener) return os_error("cannot listen for the other nodes' probes", errno);
  Answerer answerer(port_of(*listener), random_name());
  signal_masked_thread([listener, token = answerer.token()] {
    answer_all(*listener, token);
  }).detach();
  return answerer;
}

Link probe(int from, const Target& target, const Facts& facts) {
  auto [link, socket] = connect_link(from, target, facts);
  if (socket) ask_path_mtu(socket, link);
  return link;
}

Link load(int from, const Target& target, const Facts& facts) {
  std::vector<std::pair<Link, Fd>> ways;
  for (int i = 0; i < kLoadConnections; ++i) ways.push_back(connect_link(from, target, facts));
  std::vector<std::thread> threads;
  threads.reserve(ways.size());
  try {
    for (std::pair<Link, Fd>& way : ways) {
      if (!way.second) continue;
      threads.push_back(signal_masked_thread(
          [&way] { ask_bandwidth(way.second, way.first, kLoadTime, SIZE_MAX); }));
    }
  } catch (const std::system_error&) {  // no thread is left, as in a container: fewer send
  }
  for (std::thread& thread : threads) thread.join();
  Link sum = ways.front().first;
  for (size_t i = 1; i < ways.size(); ++i) sum.mbits_per_second += ways[i].first.mbits_per_second;
  sum.under_load = true;
  return sum;
}

Link measure(int from, const Target& target, const Facts& facts) {
  auto [link, socket] = connect_link(from, target, facts);
  if (!socket) return link;
  ask_bandwidth(socket, link);
  ask_path_mtu(socket, link);
  return link;
}

}  // namespace ddprun::doctor
