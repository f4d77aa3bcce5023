// SPDX-License-Identifier: Apache-2.0
// One of two ranks of a node. Counts the locks and the allocations of calls, by all threads of the
// rank, and checks that they are few.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <string>
#include <vector>

#include "tests/collectives/in_rank.h"

namespace {

std::atomic<long> locks = 0;
std::atomic<long> allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  void* const memory =
      std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

/// Calls libc's function of this name.
template <class Lock>
int really_lock(std::atomic<int (*)(Lock*)>& function, const char* name, Lock* lock) {
  ++locks;
  if (function == nullptr) function = reinterpret_cast<int (*)(Lock*)>(::dlsym(RTLD_NEXT, name));
  return function.load()(lock);
}

constinit std::atomic<int (*)(pthread_mutex_t*)> lock_mutex = nullptr;
constinit std::atomic<int (*)(pthread_rwlock_t*)> lock_to_read = nullptr;

struct Costs {
  double locks = 0;
  double allocations = 0;
};

/// The least costs of one call in any of some runs: in others a thread may have waited longer.
template <class F>
Costs costs_of(F call) {
  constexpr int kRuns = 50;
  constexpr int kCalls = 40;
  Costs least{1e9, 1e9};
  for (int run = 0; run < kRuns; ++run) {
    const long locks_before = locks;
    const long allocations_before = allocations;
    for (int i = 0; i < kCalls; ++i) call();
    least.locks = std::min(least.locks, static_cast<double>(locks - locks_before) / kCalls);
    least.allocations =
        std::min(least.allocations, static_cast<double>(allocations - allocations_before) / kCalls);
  }
  return least;
}

void check_at_most(const char* name, const Costs& costs, const Costs& most) {
  std::printf("%s: %.2f locks, %.2f allocations\n", name, costs.locks, costs.allocations);
  ddprun::tests::check(costs.locks <= most.locks, std::string(name) + " takes more locks");
  ddprun::tests::check(costs.allocations <= most.allocations,
                       std::string(name) + " takes more allocations");
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  return really_lock(lock_mutex, "pthread_mutex_lock", mutex);
}
extern "C" int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  return really_lock(lock_to_read, "pthread_rwlock_rdlock", lock);
}

int main() {
  return ddprun::tests::exit_code_of([] {
    auto group = ddprun::tests::join();
    const int other = 1 - group.rank();
    const std::vector<float> own(4, 1);
    std::vector<float> data(4);
    check_at_most("all_reduce", costs_of([&] { group.all_reduce(own, data); }), {0, 0.2});
    const auto exchange = [&] {
      const auto sent = group.isend(own, other);
      group.barrier();  // then nobody has to wait for the message
      const auto received = group.irecv(data, other);
      received.wait();
      sent.wait();
    };
    check_at_most("isend, irecv and their waits", costs_of(exchange), {10, 2});
    ddprun::tests::check(data == own, "data");
  });
}
