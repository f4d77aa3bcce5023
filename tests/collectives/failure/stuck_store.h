// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/collectives/stores/job_store.h"

namespace ddprun::tests {

/// The launcher's store, but it never answers when a group's agreed error is proposed; with `hold`,
/// it answers after hold().
class StuckStore : public ddp::Store {
 public:
  explicit StuckStore(std::function<void()> hold = nullptr) : hold_(std::move(hold)) {}
  std::string name() const override { return "a stuck store"; }

 private:
  void do_set(std::string_view key, std::string_view value) override { store_->set(key, value); }
  std::int64_t do_add(std::string_view key, std::int64_t amount) override {
    return store_->add(key, amount);
  }
  bool do_check(const std::vector<std::string>& keys) override { return store_->check(keys); }
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired) override {
    if (!key.ends_with("agreed_error")) return store_->compare_set(key, expected, desired);
    std::unique_lock lock(mutex_);
    if (!hold_) never_.wait(lock, [] { return false; });
    lock.unlock();
    const std::string answer = store_->compare_set(key, expected, desired);
    hold_();
    return answer;
  }
  bool do_delete_key(std::string_view key) override { return store_->delete_key(key); }
  std::int64_t do_num_keys() override { return store_->num_keys(); }
  void do_append(std::string_view key, std::string_view suffix) override {
    store_->append(key, suffix);
  }
  void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) override {
    store_->multi_set(entries);
  }
  bool do_wait(const std::vector<std::string>& keys, Deadline deadline) override {
    using std::chrono::milliseconds;
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    try {
      store_->wait(keys, std::max(left, milliseconds(0)));
    } catch (const ddp::Error& error) {
      if (error.kind() != ddp::ErrorKind::timed_out) throw;
      return false;
    }
    return true;
  }
  std::vector<std::string> do_multi_get(const std::vector<std::string>& keys) override {
    return store_->multi_get(keys);
  }

  const std::shared_ptr<ddp::TcpStore> store_ = job_store();
  const std::function<void()> hold_;
  std::mutex mutex_;
  std::condition_variable never_;
};

}  // namespace ddprun::tests
