// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "collectives/errors.h"
#include "ddp/store.h"
#include "store/store.h"

namespace ddp {
namespace {

constexpr std::size_t kMaxMemory = 1 << 30;

}  // namespace

/// Uses the map of ddprun's TCP store. That map's own list of waiters is for one thread. Here every
/// change wakes all threads that wait, and each checks its keys again.
struct HashStore::Impl {
  std::mutex mutex;
  std::condition_variable changed;
  ddprun::store::Store map{kMaxMemory};

  /// Runs `change` under the lock and wakes all waiting threads. Returns its value or throws its
  /// error.
  template <class F>
  auto write(const HashStore& store, F change) {
    const std::scoped_lock lock(mutex);
    const auto done = change();
    changed.notify_all();
    if (!done) throw internal::to_error(done.error().in(store.name()));
    if constexpr (!std::is_void_v<typename decltype(done)::value_type>) return *done;
  }

  bool has_all(const std::vector<std::string>& keys) const {
    return std::all_of(keys.begin(), keys.end(), [this](auto& key) { return map.has(key); });
  }
};

HashStore::HashStore() : impl_(std::make_unique<Impl>()) {}
HashStore::~HashStore() = default;

std::string HashStore::name() const {
  return "hash store";
}

void HashStore::do_set(std::string_view key, std::string_view value) {
  impl_->write(*this, [&] { return impl_->map.set(key, value); });
}

std::int64_t HashStore::do_add(std::string_view key, std::int64_t amount) {
  return impl_->write(*this, [&] { return impl_->map.add(key, amount); });
}

bool HashStore::do_check(const std::vector<std::string>& keys) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->has_all(keys);
}

std::string HashStore::do_compare_set(std::string_view key, std::string_view expected,
                                      std::string_view desired) {
  return impl_->write(*this, [&]() -> ddprun::Result<std::string> {
    const auto value = impl_->map.compare_set(key, expected, desired);
    if (!value) return value.error();
    return std::string(*value);
  });
}

bool HashStore::do_delete_key(std::string_view key) {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->map.remove(key);
}

std::int64_t HashStore::do_num_keys() {
  const std::scoped_lock lock(impl_->mutex);
  return static_cast<std::int64_t>(impl_->map.key_count());
}

void HashStore::do_append(std::string_view key, std::string_view suffix) {
  impl_->write(*this, [&] { return impl_->map.append(key, suffix); });
}

void HashStore::do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  impl_->write(*this, [&]() -> ddprun::Result<> {
    for (const auto& [key, value] : entries) {
      if (const auto stored = impl_->map.set(key, value); !stored) return stored;
    }
    return {};
  });
}

bool HashStore::do_wait(const std::vector<std::string>& keys, Deadline deadline) {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_until(lock, deadline, [&] { return impl_->has_all(keys); });
}

std::vector<std::string> HashStore::do_multi_get(const std::vector<std::string>& keys) {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<std::string> values;
  for (const std::string& key : keys) {
    const auto value = impl_->map.get(key);
    values.push_back(value ? *value : std::string());
  }
  return values;
}

}  // namespace ddp
