// SPDX-License-Identifier: Apache-2.0
#include "remote/relay.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <poll.h>
#include <random>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/text.h"
#include "launcher/exit_status.h"
#include "launcher/spawn.h"
#include "remote/order.h"

namespace ddprun::remote {
namespace {

constexpr const char* kCookie = "PBS_JOBCOOKIE";
constexpr size_t kStreams = 3;
constexpr size_t kProof = 64;       // digits
constexpr size_t kMostGuests = 64;  // connections that have not proven anything
constexpr int kSeconds = 20;        // for each step of a call
constexpr size_t kPiece = 4096;     // a pipe that has room takes as much at once

std::string proof(std::string_view cookie, std::string_view nonce, std::string_view who,
                  char stream) {
  return sha256(std::string(cookie) + '\n' + std::string(nonce) + '\n' + std::string(who) + stream);
}

/// Takes as long for each wrong one.
bool is_same(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return difference == 0;
}

void set(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

/// A host that vanishes ends its connections within 45 s, as an ssh's.
void watch(int socket) {
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(socket, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 45'000);
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
}

Result<std::string> cookie() {
  const char* value = std::getenv(kCookie);
  if (value && *value != '\0') return std::string(value);
  return Error{Errc::usage, std::string(kCookie) +
                                " is not set, by which PBS tells a job's processes apart: is this "
                                "a job script of PBS?"};
}

std::string new_nonce() {
  std::random_device random;
  std::string digits;
  for (int i = 0; i < 32; ++i) digits += "0123456789abcdef"[random() % 16];
  return digits;
}

/// At a free port of every address, IPv4 and IPv6 where there is one.
Result<Fd> listen_anywhere(std::uint16_t& port) {
  for (const int family : {AF_INET6, AF_INET}) {
    Fd listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!listener) continue;
    sockaddr_storage address = {};
    address.ss_family = static_cast<sa_family_t>(family);
    socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (family == AF_INET6) set(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener.get(), any, size) != 0 || listen(listener.get(), kMostGuests) != 0 ||
        getsockname(listener.get(), any, &size) != 0) {
      continue;
    }
    port = ntohs(family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(any)->sin6_port
                                    : reinterpret_cast<sockaddr_in*>(any)->sin_port);
    return listener;
  }
  return os_error("cannot listen for the agents", errno);
}

/// Waits for the agent's three calls.
class Reception {
 public:
  Reception(Fd listener, std::string cookie, std::string nonce)
      : listener_(std::move(listener)), cookie_(std::move(cookie)), nonce_(std::move(nonce)) {}

  /// False: `starter` ended before all came.
  bool wait(int starter) {
    while (std::any_of(streams_.begin(), streams_.end(), [](const Fd& fd) { return !fd; })) {
      std::vector<pollfd> polled = {{starter, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
      for (const Guest& guest : guests_) polled.push_back({guest.socket.get(), POLLIN, 0});
      if (poll(polled.data(), polled.size(), -1) < 0) continue;
      std::vector<Guest> guests = std::exchange(guests_, {});
      for (size_t i = 0; i < guests.size(); ++i) {
        if (polled[i + 2].revents == 0 || hear(guests[i])) guests_.push_back(std::move(guests[i]));
      }
      if (polled[1].revents != 0) take_guest();
      if (polled[0].revents != 0) return false;
    }
    return true;
  }

  std::array<Fd, kStreams>& streams() { return streams_; }

 private:
  struct Guest {
    Fd socket;
    std::string said{};
  };

  void take_guest() {
    Fd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
    if (guests_.size() >= kMostGuests) guests_.erase(guests_.begin());
    guests_.push_back({std::move(socket)});
  }

  /// Whether more of it is to come.
  bool hear(Guest& guest) {
    std::array<char, 1 + kProof> bytes;
    const ssize_t count =
        recv(guest.socket.get(), bytes.data(), bytes.size() - guest.said.size(), MSG_DONTWAIT);
    if (count <= 0) return count < 0 && (errno == EAGAIN || errno == EINTR);
    guest.said.append(bytes.data(), static_cast<size_t>(count));
    if (guest.said.size() < bytes.size()) return true;
    const char stream = guest.said.front();
    const size_t index = static_cast<size_t>(stream) - '0';
    if (index >= kStreams || streams_[index] ||
        !is_same(guest.said.substr(1), proof(cookie_, nonce_, "agent", stream))) {
      return false;
    }
    const std::string answer = proof(cookie_, nonce_, "relay", stream);
    send(guest.socket.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    watch(guest.socket.get());
    streams_[index] = std::move(guest.socket);
    return false;
  }

  Fd listener_;
  const std::string cookie_;
  const std::string nonce_;
  std::vector<Guest> guests_;
  std::array<Fd, kStreams> streams_;
};

/// Bytes in one direction; no more is read before they are written.
class Pump {
 public:
  Pump(int from, int to, bool to_socket) : from_(from), to_(to), to_socket_(to_socket) {}

  bool is_done() const { return done_; }

  pollfd polled() const {
    if (done_) return {-1, 0, 0};
    return pending_.empty() ? pollfd{from_, POLLIN, 0} : pollfd{to_, POLLOUT, 0};
  }

  void move() { pending_.empty() ? fill() : drain(); }

 private:
  void fill() {
    std::array<char, kPiece> bytes;
    const ssize_t count = read(from_, bytes.data(), bytes.size());
    if (count > 0) {
      pending_.assign(bytes.data(), static_cast<size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      end();
    }
  }

  void drain() {
    const ssize_t count =
        to_socket_ ? ::send(to_, pending_.data(), pending_.size(), MSG_NOSIGNAL | MSG_DONTWAIT)
                   : write(to_, pending_.data(), pending_.size());
    if (count >= 0) {
      pending_.erase(0, static_cast<size_t>(count));
    } else if (errno != EINTR && errno != EAGAIN) {
      end();
    }
  }

  void end() {
    done_ = true;
    to_socket_ ? shutdown(to_, SHUT_WR) : close(to_);
  }

  int from_, to_;
  bool to_socket_;
  std::string pending_;
  bool done_ = false;
};

/// Until both outputs have ended.
void pump(const std::array<Fd, kStreams>& streams) {
  std::array<Pump, kStreams> pumps = {Pump(STDIN_FILENO, streams[0].get(), true),
                                      Pump(streams[1].get(), STDOUT_FILENO, false),
                                      Pump(streams[2].get(), STDERR_FILENO, false)};
  while (!pumps[1].is_done() || !pumps[2].is_done()) {
    std::array<pollfd, kStreams> polled = {pumps[0].polled(), pumps[1].polled(), pumps[2].polled()};
    if (poll(polled.data(), polled.size(), -1) < 0) continue;
    for (size_t i = 0; i < pumps.size(); ++i) {
      if (polled[i].revents != 0 && !pumps[i].is_done()) pumps[i].move();
    }
  }
}

launcher::Command starter_command(std::span<const std::string> words, const std::string& where) {
  launcher::Command command;
  command.program = words.front();
  command.arguments.assign(words.begin(), words.end());
  command.arguments.back() += "=" + where;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    command.environment.emplace_back(*variable);
  }
  return command;
}

int code_without_agent(pid_t starter) {
  int status = 0;
  waitpid(starter, &status, 0);
  return std::max(1, launcher::ExitStatus(status).code());
}

int fail(const Error& error) {
  log::error(error.message);
  return 1;
}

struct Place {
  std::string host, port, nonce;
};

/// "HOST:PORT/NONCE".
std::optional<Place> parse_place(std::string_view where) {
  const size_t slash = where.rfind('/');
  const size_t colon = where.rfind(':', slash);
  if (slash == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  return Place{std::string(where.substr(0, colon)),
               std::string(where.substr(colon + 1, slash - colon - 1)),
               std::string(where.substr(slash + 1))};
}

Result<Fd> dial(const Place& place) {
  addrinfo hints = {}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string what =
      "cannot reach the ddprun that started this one, at " + place.host + ":" + place.port + ": ";
  const int failure = getaddrinfo(place.host.c_str(), place.port.c_str(), &hints, &found);
  if (failure != 0) return Error{Errc::unreachable, what + gai_strerror(failure)};
  int reason = 0;
  Fd connected;
  for (addrinfo* address = found; address && !connected; address = address->ai_next) {
    Fd socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = {kSeconds, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);  // connect's, too
    setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(socket.get(), address->ai_addr, address->ai_addrlen) == 0) {
      connected = std::move(socket);
    }
    reason = errno;
  }
  freeaddrinfo(found);
  if (!connected) return Error{Errc::unreachable, os_error(what + "connect", reason).message};
  return connected;
}

Result<> introduce(int socket, const Place& place, const std::string& cookie, char stream) {
  const std::string words = stream + proof(cookie, place.nonce, "agent", stream);
  std::string answer(kProof, '\0');
  const bool is_relay =
      send(socket, words.data(), words.size(), MSG_NOSIGNAL) == std::ssize(words) &&
      recv(socket, answer.data(), answer.size(), MSG_WAITALL) == std::ssize(answer) &&
      is_same(answer, proof(cookie, place.nonce, "relay", stream));
  if (!is_relay) {
    return Error{Errc::protocol, "the process at " + place.host + ":" + place.port +
                                     " is not the ddprun that started this one, or has another " +
                                     kCookie};
  }
  const timeval none = {};
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none);
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
  watch(socket);
  return {};
}

}  // namespace

bool is_relay(std::span<const std::string> words) {
  return words.size() > 2 && words.front() == kRelayFlag;
}

int run_relay(std::span<const std::string> words) {
  const Result<std::string> shared = cookie();
  if (!shared) return fail(shared.error());
  std::uint16_t port = 0;
  Result<Fd> listener = listen_anywhere(port);
  if (!listener) return fail(listener.error());
  const std::string nonce = new_nonce();
  const std::string where = words[1] + ":" + std::to_string(port) + "/" + nonce;
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Fd err(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  launcher::Command command = starter_command(words.subspan(2), where);
  command.stdin_fd = null.get();
  command.stdout_fd = command.stderr_fd = err.get();  // its words are the reason if no agent calls
  launcher::Spawned starter = launcher::spawn({command});
  if (starter.failure) return fail(*starter.failure);
  Reception reception(std::move(*listener), *shared, nonce);
  if (!reception.wait(starter.children.front().pidfd.get())) {
    if (const auto failure = starter.batch.exec_failure(0)) return fail(*failure);
    return code_without_agent(starter.children.front().pid);
  }
  pump(reception.streams());
  return 0;
}

Result<> call_back(std::string_view where) {
  const std::optional<Place> place = parse_place(where);
  if (!place) return Error{Errc::usage, std::string(kAgentFlag) + ": " + printable(where)};
  const Result<std::string> shared = cookie();
  if (!shared) return shared.error();
  std::array<Fd, kStreams> streams;
  for (size_t i = 0; i < kStreams; ++i) {
    Result<Fd> socket = dial(*place);
    if (!socket) return socket.error();
    const Result<> known = introduce(socket->get(), *place, *shared, static_cast<char>('0' + i));
    if (!known) return known;
    streams[i] = std::move(*socket);
  }
  for (size_t i = 0; i < kStreams; ++i) dup2(streams[i].get(), static_cast<int>(i));
  return {};
}

}  // namespace ddprun::remote
