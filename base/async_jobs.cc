// SPDX-License-Identifier: Apache-2.0
#include "base/async_jobs.h"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <mutex>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include <boost/asio/post.hpp>

#include "base/fd.h"

namespace ddprun {
namespace {

/// A job that runs longer than this may keep the others waiting.
constexpr std::chrono::milliseconds kStuckAfter{20};

}  // namespace

/// Reports of the threads.
struct AsyncJobs::Ended {
  std::mutex mutex;
  std::vector<std::size_t> numbers;
  Fd event;

  void add(std::size_t number) {
    {
      const std::lock_guard lock(mutex);
      numbers.push_back(number);
    }
    const std::uint64_t one = 1;
    while (write(event.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  std::vector<std::size_t> take() {
    const std::lock_guard lock(mutex);
    return std::exchange(numbers, {});
  }
};

void AsyncJobs::begin(std::function<void()> job, std::function<void()> done) {
  if (!make_event()) {  // out of descriptors: late is better than not at all
    job();
    return boost::asio::post(executor_, [alive = std::weak_ptr(alive_), done = std::move(done)] {
      if (!alive.expired()) done();
    });
  }
  const std::size_t number = next_++;
  done_.emplace(number, std::move(done));
  threads_.run([number, ended = ended_, job = std::move(job)]() mutable {
    job();
    job = nullptr;
    ended->add(number);
  });
  wait();
  if (threads_.is_behind()) relieve_soon();
}

bool AsyncJobs::make_event() {
  if (ended_) return true;
  auto ended = std::make_shared<Ended>();
  ended->event.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Fd ours(fcntl(ended->event.get(), F_DUPFD_CLOEXEC, 0));
  if (!ours) return false;
  ended_event_.assign(ours.release());
  ended_ = std::move(ended);
  return true;
}

/// Waits only while jobs are under way, so that an idle loop ends.
void AsyncJobs::wait() {
  if (waiting_ || done_.empty()) return;
  waiting_ = true;
  ended_event_.async_wait(boost::asio::posix::descriptor_base::wait_read,
                          [this, alive = std::weak_ptr(alive_)](boost::system::error_code) {
                            if (alive.expired()) return;
                            waiting_ = false;
                            deliver();
                            if (!alive.expired()) wait();
                          });
}

void AsyncJobs::deliver() {
  std::uint64_t count = 0;
  while (read(ended_event_.native_handle(), &count, sizeof count) < 0 && errno == EINTR) {
  }
  const std::weak_ptr alive(alive_);
  for (const std::size_t number : ended_->take()) {
    const auto done = done_.extract(number);
    done.mapped()();
    if (alive.expired()) return;
  }
}

void AsyncJobs::relieve_soon() {
  if (std::exchange(relieving_, true)) return;
  relief_.expires_after(kStuckAfter);
  relief_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code) {
    if (alive.expired()) return;
    relieving_ = false;
    threads_.relieve();
    if (threads_.is_behind()) relieve_soon();
  });
}

bool AsyncJobs::wait_until_idle(std::chrono::steady_clock::time_point deadline) {
  while (!done_.empty()) {
    if (!threads_.wait_until_idle(deadline)) return false;
    deliver();
  }
  return true;
}

}  // namespace ddprun
