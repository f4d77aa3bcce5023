// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/hangup_watch.h"

#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <system_error>
#include <utility>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {

HangupWatch::HangupWatch(ddprun::Fd connection, std::function<void()> on_end)
    : connection_(std::move(connection)),
      on_end_(std::move(on_end)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  if (!stop_) throw std::system_error(errno, std::generic_category(), "cannot watch a connection");
  thread_ = signal_masked_thread([this] { run(); });
}

HangupWatch::~HangupWatch() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HangupWatch::run() {
  std::array<pollfd, 2> both = {{{stop_.get(), POLLIN, 0}, {connection_.get(), POLLRDHUP, 0}}};
  while (::poll(both.data(), both.size(), -1) <= 0) continue;
  if (both[0].revents == 0) on_end_();
}

}  // namespace ddp::internal
