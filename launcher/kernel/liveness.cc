// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/liveness.h"

#include <cerrno>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/blocking_io.h"

namespace ddprun::launcher {
namespace {

timespec timespec_of(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((time - seconds).count())};
}

}  // namespace

Result<> LivenessTimer::open(std::atomic<std::uint32_t>& settings) {
  settings_ = &settings;
  fd_.reset(timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!fd_) return os_error("cannot create a timer", errno);
  return {};
}

void LivenessTimer::set(BootClock::time_point until, std::chrono::nanoseconds grace) {
  change(until.time_since_epoch(), grace);
}

void LivenessTimer::clear() {
  change(std::chrono::nanoseconds::zero(), std::chrono::nanoseconds::zero());
}

void LivenessTimer::change(std::chrono::nanoseconds until, std::chrono::nanoseconds grace) {
  if (settings_ == nullptr) return;  // there is no guardian
  // Counts first: if the agent is stopped between the two, the old setting expires and catches it.
  ++*settings_;
  const itimerspec timer = {timespec_of(grace), timespec_of(until)};
  timerfd_settime(fd_.get(), TFD_TIMER_ABSTIME, &timer, nullptr);
}

bool LivenessTimer::take_expiry() const {
  std::uint64_t expired = 0;
  return read(fd_.get(), &expired, sizeof expired) == sizeof expired;
}

std::chrono::nanoseconds LivenessTimer::grace() const {
  itimerspec current = {};
  timerfd_gettime(fd_.get(), &current);
  return std::chrono::seconds(current.it_interval.tv_sec) +
         std::chrono::nanoseconds(current.it_interval.tv_nsec);
}

int LivenessWatch::timeout() const {
  return in_grace() ? poll_time(grace_ends_) : -1;
}

bool LivenessWatch::is_unresponsive(Clock::time_point now) {
  if (!in_grace()) {
    settings_ = timer_.settings();  // before taking the expiry: later settings are within the grace
    if (timer_.take_expiry()) grace_ends_ = now + timer_.grace();
  }
  if (now < grace_ends_) return false;
  grace_ends_ = Clock::time_point::max();
  return timer_.settings() == settings_;
}

}  // namespace ddprun::launcher
