// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/boot_timer.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <sys/timerfd.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/system/system_error.hpp>

namespace ddprun::rendezvous {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

int new_timer_descriptor() {
  const int fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd >= 0) return fd;
  throw boost::system::system_error(errno, boost::system::system_category(),
                                    "cannot create a timer");
}

}  // namespace

class BootTimer::Descriptor : public std::enable_shared_from_this<Descriptor> {
 public:
  Descriptor(const asio::any_io_executor& executor, std::function<void()> fired)
      : timer_(executor), fired_(std::move(fired)) {}

  void set(std::optional<BootClock::time_point> when) {
    if (!when || (when_ && *when_ <= *when)) return;
    if (!timer_.is_open()) {
      timer_.assign(new_timer_descriptor());
      wait();
    }
    when_ = when;
    // All zeros would disarm it.
    const auto at = std::max<BootClock::duration>(when->time_since_epoch(), BootClock::duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(at);
    itimerspec timer = {};
    timer.it_value = {static_cast<time_t>(seconds.count()),
                      static_cast<long>((at - seconds).count())};
    timerfd_settime(timer_.native_handle(), TFD_TIMER_ABSTIME, &timer, nullptr);
  }

  /// Stops all calls of the function.
  void release() {
    released_ = true;
    error_code ignored;
    timer_.close(ignored);
  }

 private:
  void wait() {
    timer_.async_wait(timer_.wait_read, [self = shared_from_this()](error_code cancelled) {
      if (!cancelled && !self->released_) self->on_readable();
    });
  }

  /// The wait may end before the timer has fired.
  void on_readable() {
    std::uint64_t expired = 0;
    const bool has_fired = read(timer_.native_handle(), &expired, sizeof expired) == sizeof expired;
    if (has_fired) {
      when_.reset();
      fired_();
    }
    if (!released_) wait();
  }

  asio::posix::stream_descriptor timer_;
  const std::function<void()> fired_;
  std::optional<BootClock::time_point> when_;
  bool released_ = false;
};

BootTimer::BootTimer(const asio::any_io_executor& executor, std::function<void()> fired)
    : descriptor_(std::make_shared<Descriptor>(executor, std::move(fired))) {}

BootTimer::~BootTimer() {
  descriptor_->release();
}

void BootTimer::set(std::optional<BootClock::time_point> when) {
  descriptor_->set(when);
}

}  // namespace ddprun::rendezvous
