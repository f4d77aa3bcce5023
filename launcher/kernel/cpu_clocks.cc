// SPDX-License-Identifier: Apache-2.0
#include "launcher/kernel/cpu_clocks.h"

#include <chrono>
#include <list>
#include <optional>
#include <pthread.h>
#include <sched.h>
#include <semaphore>
#include <vector>

#include "launcher/kernel/affinity.h"

namespace ddprun::launcher {
namespace {

using ReadClock = std::function<std::optional<double>()>;

constexpr std::chrono::milliseconds kTimeToRead{200};

class Mask {
 public:
  explicit Mask(const std::vector<int>& cpus) : words_(affinity_mask(cpus)) {}
  size_t size() const { return words_.size() * sizeof words_.front(); }
  const cpu_set_t* get() const { return reinterpret_cast<const cpu_set_t*>(words_.data()); }

 private:
  std::vector<unsigned long> words_;
};

/// A thread that waits until it is on its CPU, and then reads the clock. An affinity among the new
/// thread's attributes would be simpler, but if it is refused, old glibc cancels the thread.
class Reading {
 public:
  Reading(int cpu, const ReadClock& read, std::counting_semaphore<>& ends)
      : cpu_(cpu), read_(read), ends_(ends) {
    has_begun_ = pthread_create(&thread_, nullptr, run, this) == 0;
    if (!has_begun_) return;
    const Mask mask({cpu});
    pthread_setaffinity_np(thread_, mask.size(), mask.get());  // may fail: run() checks the CPU
    is_placed_.release();
  }
  Reading(const Reading&) = delete;

  bool has_begun() const { return has_begun_; }
  int cpu() const { return cpu_; }

  /// Lets the thread run on `others`, too, so that it ends.
  std::optional<double> finish(const Mask& others) {
    pthread_setaffinity_np(thread_, others.size(), others.get());
    pthread_join(thread_, nullptr);
    return clock_;
  }

 private:
  /// While this runs, the kernel has just noted the present time.
  static void* run(void* self) {
    auto& reading = *static_cast<Reading*>(self);
    reading.is_placed_.acquire();
    if (sched_getcpu() == reading.cpu_) reading.clock_ = reading.read_();
    if (sched_getcpu() != reading.cpu_) reading.clock_.reset();  // finish() has moved it
    reading.ends_.release();
    return nullptr;
  }

  const int cpu_;
  const ReadClock& read_;
  std::counting_semaphore<>& ends_;
  std::binary_semaphore is_placed_{0};
  bool has_begun_ = false;
  pthread_t thread_{};
  std::optional<double> clock_;
};

}  // namespace

std::map<int, double> cpu_clocks(const std::set<int>& cpus, const ReadClock& read) {
  const Mask allowed(allowed_cpus());
  const auto deadline = std::chrono::steady_clock::now() + kTimeToRead;
  std::counting_semaphore<> ends(0);
  std::list<Reading> readings;
  for (const int cpu : cpus) {
    if (!readings.emplace_back(cpu, read, ends).has_begun()) readings.pop_back();
  }
  bool in_time = true;
  for (size_t i = 0; i < readings.size() && in_time; ++i)
    in_time = ends.try_acquire_until(deadline);
  std::map<int, double> clocks;
  for (Reading& reading : readings) {
    if (const auto clock = reading.finish(allowed)) clocks[reading.cpu()] = *clock;
  }
  return clocks;
}

}  // namespace ddprun::launcher
