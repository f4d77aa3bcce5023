// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/hangup_watch.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {

HangupWatch::HangupWatch(std::vector<Connection> connections, std::function<void(int rank)> lost)
    : connections_(std::move(connections)),
      lost_(std::move(lost)),
      end_(::eventfd(0, EFD_CLOEXEC)) {
  if (!end_) throw std::system_error(errno, std::generic_category(), "cannot watch connections");
  // Not in the thread: it could not report that there is no memory left.
  all_.reserve(connections_.size() + 1);
  for (const Connection& connection : connections_) {
    all_.push_back({connection.socket.get(), POLLRDHUP, 0});
  }
  all_.push_back({end_.get(), POLLIN, 0});
  thread_ = signal_masked_thread([this] { run(); });
}

HangupWatch::~HangupWatch() {
  const std::uint64_t one = 1;
  while (::write(end_.get(), &one, sizeof(one)) < 0 && errno == EINTR) continue;
  thread_.join();
}

bool HangupWatch::ends_within(int rank, std::chrono::milliseconds limit) const {
  const auto found = std::ranges::find(connections_, rank, &Connection::rank);
  if (found == connections_.end()) return false;
  pollfd one = {found->socket.get(), POLLRDHUP, 0};
  return ::poll(&one, 1, static_cast<int>(limit.count())) > 0;
}

void HangupWatch::run() {
  while (true) {
    if (::poll(all_.data(), all_.size(), -1) <= 0) continue;
    if (all_.back().revents != 0) return;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (all_[i].revents == 0) continue;
      all_[i].fd = -1;  // poll() skips it from now on
      lost_(connections_[i].rank);
    }
  }
}

}  // namespace ddp::internal
