// SPDX-License-Identifier: Apache-2.0
#include "launcher/final_message.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <poll.h>

#include "base/fd.h"

namespace ddprun::launcher {
namespace {

using FinalClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kFinalLimit{2};

/// Waits until the socket can be written to; false: not before `deadline`.
bool is_writable(const Fd& socket, FinalClock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - FinalClock::now()).count();
    pollfd source = {socket.get(), POLLOUT, 0};
    const int ready = poll(&source, 1, std::max(0, static_cast<int>(left)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

void send_all(const Fd& socket, std::string_view bytes, FinalClock::time_point deadline) {
  while (!bytes.empty() && is_writable(socket, deadline)) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return;
    bytes.remove_prefix(static_cast<size_t>(std::max<ssize_t>(sent, 0)));
  }
}

}  // namespace

bool FinalMessage::store(Text& text, std::string_view bytes) {
  if (bytes.size() > sizeof text.bytes) return false;
  std::memcpy(text.bytes, bytes.data(), bytes.size());
  text.size = bytes.size();
  return true;
}

void FinalMessage::set(const Route& route, std::string_view subject) {
  clear();
  is_set_ = store(to_, route.to) && store(from_, route.from) && store(subject_, subject);
}

void FinalMessage::send(const Compose& compose, const ExitStatus& agent) const {
  if (!is_set_ || !compose) return;
  const auto deadline = FinalClock::now() + kFinalLimit;
  const auto* to = reinterpret_cast<const sockaddr*>(to_.bytes);
  const auto* from = reinterpret_cast<const sockaddr*>(from_.bytes);
  const Fd socket(::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return;
  if (from_.size > 0 && bind(socket.get(), from, static_cast<socklen_t>(from_.size)) != 0) return;
  const int connected = connect(socket.get(), to, static_cast<socklen_t>(to_.size));
  if (connected != 0 && errno != EINPROGRESS) return;
  send_all(socket, compose({subject_.bytes, subject_.size}, agent), deadline);
}

}  // namespace ddprun::launcher
