// SPDX-License-Identifier: Apache-2.0
#include "collectives/background.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/signal_masked_thread.h"

namespace ddp::internal {
namespace {

struct BegunWork {
  std::function<void()> run;
  std::function<void()> abandon;
  std::function<void()> give_up;
  const BegunWork* outer = nullptr;  ///< the work that this one interrupts
};

/// The work that this thread does.
thread_local const BegunWork* current = nullptr;

std::atomic<bool> ends = false;
std::atomic<bool> gives_up = false;

void do_work(BegunWork& work) {
  work.outer = std::exchange(current, &work);
  work.run();
  current = work.outer;
  work.run = nullptr;  // what it owns ends here, too
  work.abandon = nullptr;
}

class Background {
 public:
  /// Returns false if no thread can be made. Joins the threads that have ended first: each keeps
  /// its stack until it is joined.
  bool run(const std::shared_ptr<BegunWork>& work) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    std::erase_if(threads_, [](Thread& one) {
      const bool is_over = *one.is_over;
      if (is_over) one.thread.join();
      return is_over;
    });
    auto is_over = std::make_shared<std::atomic<bool>>(false);
    Thread& one = threads_.emplace_back(std::thread(), is_over, work);
    try {
      one.thread = signal_masked_thread([work, is_over] {
        do_work(*work);
        *is_over = true;
      });
    } catch (const Error&) {
      threads_.pop_back();
      return false;
    }
    return true;
  }

  /// Waits for all work, also for work that other work begins. If work itself calls it, as exit()
  /// does, abandons that work, so that other work does not wait for it.
  void finish() {
    if (current != nullptr) ends = true;
    for (const BegunWork* own = current; own != nullptr; own = own->outer) own->abandon();
    while (true) {
      std::vector<Thread> threads;
      {
        const std::lock_guard lock(mutex_);
        threads.swap(threads_);
      }
      if (threads.empty()) return;
      for (Thread& one : threads) {
        if (one.thread.get_id() == std::this_thread::get_id()) {
          one.thread.detach();
        } else {
          one.thread.join();
        }
      }
    }
  }

  /// The process exits with an error; other ranks are to learn that soon.
  void give_up() {
    gives_up = true;
    std::vector<std::shared_ptr<BegunWork>> all;
    {
      const std::lock_guard lock(mutex_);
      for (const Thread& one : threads_) all.push_back(one.work);
    }
    for (const auto& work : all) work->give_up();
  }

  /// The process exits: nothing would wait for threads that are made from now on.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    finish();
    for (const auto& last : last_) last();
  }

  void at_end(std::function<void()> last) {
    const std::lock_guard lock(mutex_);
    last_.push_back(std::move(last));
  }

 private:
  struct Thread {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> is_over;
    std::shared_ptr<BegunWork> work;
  };

  std::mutex mutex_;
  std::vector<Thread> threads_;
  std::vector<std::function<void()>> last_;
  bool is_closed_ = false;
};

/// Never destroyed: objects that the program made before its first work may begin more when they
/// are destroyed. A process that fork() makes has none of the threads: it begins with nothing.
Background*& background() {
  static Background* current_one = [] {
    std::atexit([] { background()->close(); });
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): that of the parent is left as it is
    ::pthread_atfork(nullptr, nullptr, [] { background() = new Background; });
    return new Background;
  }();
  return current_one;
}

void on_exit_of_process(int code, void* /*unused*/) {
  if ((code & 0xff) != 0) background()->give_up();
  finish_background();
}

}  // namespace

void run_in_background(std::function<void()> work, std::function<void()> abandon,
                       std::function<void()> give_up) {
  // Made before any work, so close() runs before objects constructed earlier are destroyed.
  Background& all = *background();
  static const int registered = ::on_exit(&on_exit_of_process, nullptr);
  static_cast<void>(registered);
  const auto begun = std::make_shared<BegunWork>(BegunWork{
      .run = std::move(work), .abandon = std::move(abandon), .give_up = std::move(give_up)});
  if (!all.run(begun)) do_work(*begun);
}

bool is_in_background() {
  return current != nullptr;
}

bool ends_from_background() {
  return ends;
}

bool is_given_up() {
  return gives_up;
}

void finish_background() {
  background()->finish();
}

void after_background(std::function<void()> last) {
  background()->at_end(std::move(last));
}

}  // namespace ddp::internal
