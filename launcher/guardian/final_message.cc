// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/final_message.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <poll.h>

#include "base/fd.h"

namespace ddprun::launcher {
namespace {

using FinalClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFinalLimit{2};

/// Waits until the socket is ready for `events` of poll(2); false: not before `deadline`.
bool is_ready(const Fd& socket, short events, FinalClock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - FinalClock::now()).count();
    pollfd source = {socket.get(), events, 0};
    const int ready = poll(&source, 1, std::max(0, static_cast<int>(left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

void send_all(const Fd& socket, std::string_view bytes, FinalClock::time_point deadline) {
  while (!bytes.empty() && is_ready(socket, POLLOUT, deadline)) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return;
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  }
}

/// The bytes that came; empty: no more will come.
std::string_view receive(const Fd& socket, std::array<char, 4096>& buffer,
                         FinalClock::time_point deadline) {
  if (!is_ready(socket, POLLIN, deadline)) return {};
  const ssize_t size = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
  return {buffer.data(), static_cast<size_t>(std::max<ssize_t>(size, 0))};
}

void speak(const Fd& socket, const FinalMessage::Talk& talk, FinalClock::time_point deadline) {
  std::array<char, 4096> buffer;
  std::string_view received;
  for (;;) {
    const auto [bytes, is_last] = talk(received);
    send_all(socket, bytes, deadline);
    if (is_last) return;
    received = receive(socket, buffer, deadline);
    if (received.empty()) return;
  }
}

}  // namespace

template <size_t kMost>
bool FinalMessage::Text<kMost>::store(std::string_view from) {
  if (from.size() > kMost) return false;
  from.copy(bytes, from.size());
  size = from.size();
  return true;
}

void FinalMessage::set(const Route& route, std::string_view subject) {
  clear();
  is_set_ = to_.store(route.to) && from_.store(route.from) && subject_.store(subject);
}

void FinalMessage::send(const Compose& compose, const std::string& how) const {
  if (!is_set_ || !compose) return;
  const auto deadline = FinalClock::now() + kFinalLimit;
  const auto* to = reinterpret_cast<const sockaddr*>(to_.bytes);
  const auto* from = reinterpret_cast<const sockaddr*>(from_.bytes);
  const Fd socket(::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return;
  if (from_.size > 0 && bind(socket.get(), from, static_cast<socklen_t>(from_.size)) != 0) return;
  const int connected = connect(socket.get(), to, static_cast<socklen_t>(to_.size));
  if (connected != 0 && errno != EINPROGRESS) return;
  speak(socket, compose({subject_.bytes, subject_.size}, how), deadline);
}

}  // namespace ddprun::launcher
