// SPDX-License-Identifier: Apache-2.0
#include "launcher/guardian/final_message.h"

#include <array>
#include <chrono>

#include "base/blocking_io.h"
#include "base/fd.h"

namespace ddprun::launcher {
namespace {

constexpr std::chrono::seconds kFinalLimit{2};

void speak(const Fd& socket, const FinalMessage::Talk& talk, Deadline deadline) {
  std::array<char, 4096> buffer;
  for (size_t size = 0;;) {
    const auto [bytes, is_last] = talk({buffer.data(), size});
    if (send_all(socket, bytes, deadline) != 0 || is_last) return;
    if (receive_some(socket, buffer, deadline, size) != 0 || size == 0) return;
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
  const auto deadline = std::chrono::steady_clock::now() + kFinalLimit;
  const auto* to = reinterpret_cast<const sockaddr*>(to_.bytes);
  const auto* from = reinterpret_cast<const sockaddr*>(from_.bytes);
  const Fd socket(::socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return;
  if (from_.size > 0 && bind(socket.get(), from, static_cast<socklen_t>(from_.size)) != 0) return;
  if (connect_to(to, static_cast<socklen_t>(to_.size), socket, deadline) != 0) return;
  speak(socket, compose({subject_.bytes, subject_.size}, how), deadline);
}

}  // namespace ddprun::launcher
