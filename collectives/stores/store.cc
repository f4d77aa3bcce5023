// SPDX-License-Identifier: Apache-2.0
#include "ddp/store.h"

#include <algorithm>

#include "collectives/errors.h"
#include "collectives/time_limit.h"

namespace ddp {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The limits of PyTorch's server, which are also those of ours (store/wire.h).
constexpr std::size_t kMaxKey = 8 << 10;
constexpr std::size_t kMaxValue = 8 << 20;
constexpr std::size_t kMaxKeys = 131'072;
constexpr std::size_t kMaxRequest = 63 << 20;

constexpr std::size_t kNamed = 8;  // keys in an error message

[[noreturn]] void refuse(const Store& store, const std::string& what) {
  throw Error(ErrorKind::usage, "ddp: " + store.name() + ": " + what);
}

void check_size(const Store& store, const char* what, std::size_t size, std::size_t limit) {
  if (size <= limit) return;
  refuse(store, std::string("a ") + what + " of " + std::to_string(size) + " bytes; at most " +
                    std::to_string(limit) + " are taken");
}

void check_entry(const Store& store, std::string_view key, std::string_view value) {
  check_size(store, "key", key.size(), kMaxKey);
  check_size(store, "value", value.size(), kMaxValue);
}

void check_list(const Store& store, std::size_t keys, std::size_t bytes) {
  if (keys > kMaxKeys) {
    refuse(store, "a list of " + std::to_string(keys) + " keys; at most " +
                      std::to_string(kMaxKeys) + " are taken");
  }
  check_size(store, "request", bytes, kMaxRequest);
}

void check_keys(const Store& store, const std::vector<std::string>& keys) {
  std::size_t bytes = 0;
  for (const std::string& key : keys) {
    check_size(store, "key", key.size(), kMaxKey);
    bytes += key.size();
  }
  check_list(store, keys.size(), bytes);
}

milliseconds checked(const Store& store, milliseconds timeout) {
  if (timeout.count() >= 0) return timeout;
  refuse(store, "a timeout of " + internal::name_time(timeout) + "; it cannot be below 0");
}

/// "key a", "keys a, b and 3 more".
std::string name_keys(const std::vector<std::string>& keys) {
  std::string text = keys.size() == 1 ? "key " : "keys ";
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); ++i) {
    text += (i == 0 ? "" : ", ") + keys[i];
  }
  if (keys.size() > kNamed) text += " and " + std::to_string(keys.size() - kNamed) + " more";
  return text;
}

}  // namespace

Store::~Store() = default;

void Store::set(std::string_view key, std::string_view value) {
  check_entry(*this, key, value);
  do_set(key, value);
}

std::string Store::get(std::string_view key, Timeout timeout) {
  return std::move(multi_get({std::string(key)}, timeout).front());
}

std::int64_t Store::add(std::string_view key, std::int64_t amount) {
  check_entry(*this, key, "");
  return do_add(key, amount);
}

void Store::wait(const std::vector<std::string>& keys, Timeout timeout) {
  check_keys(*this, keys);
  const milliseconds limit = checked(*this, timeout.value_or(timeout_));
  const auto deadline = steady_clock::now() + internal::bounded(limit);
  if (limit.count() == 0 ? do_check(keys) : do_wait(keys, deadline)) return;
  std::vector<std::string> missing;
  for (const std::string& key : keys) {
    if (missing.size() > kNamed) break;  // each check costs a request
    if (!do_check({key})) missing.push_back(key);
  }
  if (missing.size() > kNamed || missing.empty()) missing = keys;
  throw Error(ErrorKind::timed_out, "ddp: " + name() + ": timed out after " +
                                        internal::name_time(limit) + " waiting for " +
                                        name_keys(missing));
}

bool Store::check(const std::vector<std::string>& keys) {
  check_keys(*this, keys);
  return do_check(keys);
}

std::string Store::compare_set(std::string_view key, std::string_view expected,
                               std::string_view desired) {
  check_entry(*this, key, expected);
  check_entry(*this, key, desired);
  return do_compare_set(key, expected, desired);
}

bool Store::delete_key(std::string_view key) {
  check_entry(*this, key, "");
  return do_delete_key(key);
}

std::int64_t Store::num_keys() {
  return do_num_keys();
}

void Store::append(std::string_view key, std::string_view suffix) {
  check_entry(*this, key, suffix);
  do_append(key, suffix);
}

std::vector<std::string> Store::multi_get(const std::vector<std::string>& keys, Timeout timeout) {
  wait(keys, timeout);
  return do_multi_get(keys);
}

void Store::multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : entries) {
    check_entry(*this, key, value);
    bytes += key.size() + value.size() + 16;
  }
  check_list(*this, entries.size(), bytes);
  do_multi_set(entries);
}

void Store::set_timeout(milliseconds timeout) {
  timeout_ = checked(*this, timeout);
}

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {
  if (!store_) throw Error(ErrorKind::usage, "ddp: PrefixStore " + prefix_ + " of no store");
  set_timeout(store_->timeout());
}

PrefixStore::~PrefixStore() = default;

std::string PrefixStore::name() const {
  return "prefix " + prefix_ + " of " + (store_ ? store_->name() : "no store");
}

std::string PrefixStore::full(std::string_view key) const {
  std::string text = prefix_;
  text += key;
  return text;
}

std::vector<std::string> PrefixStore::full(const std::vector<std::string>& keys) const {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const std::string& key : keys) names.push_back(prefix_ + key);
  return names;
}

void PrefixStore::do_set(std::string_view key, std::string_view value) {
  store_->set(full(key), value);
}

std::int64_t PrefixStore::do_add(std::string_view key, std::int64_t amount) {
  return store_->add(full(key), amount);
}

bool PrefixStore::do_check(const std::vector<std::string>& keys) {
  return store_->check(full(keys));
}

std::string PrefixStore::do_compare_set(std::string_view key, std::string_view expected,
                                        std::string_view desired) {
  return store_->compare_set(full(key), expected, desired);
}

bool PrefixStore::do_delete_key(std::string_view key) {
  return store_->delete_key(full(key));
}

std::int64_t PrefixStore::do_num_keys() {
  return store_->num_keys();
}

void PrefixStore::do_append(std::string_view key, std::string_view suffix) {
  store_->append(full(key), suffix);
}

void PrefixStore::do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) {
  auto named = entries;
  for (auto& [key, value] : named) key.insert(0, prefix_);
  store_->multi_set(named);
}

bool PrefixStore::do_wait(const std::vector<std::string>& keys, Deadline deadline) {
  const auto names = full(keys);
  check_keys(*store_, names);
  return store_->do_wait(names, deadline);
}

std::vector<std::string> PrefixStore::do_multi_get(const std::vector<std::string>& keys) {
  return store_->do_multi_get(full(keys));
}

}  // namespace ddp
