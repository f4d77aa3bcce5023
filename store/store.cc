// SPDX-License-Identifier: Apache-2.0
#include "store/store.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "base/number.h"
#include "store/wire.h"

namespace ddprun::store {

void KeyList::add(Item& item, const std::string& key) {
  item.key_ = &key;
  item.number_ = next_number_++;
  items_.push_back(item);
}

void KeyList::remove(Item& item) {
  for (Listing* listing : listings_) listing->on_removal(item);
  std::erase_if(listings_, [](const Listing* listing) { return listing->revoked(); });
  items_.erase(items_.iterator_to(item));
}

Listing::Listing(KeyList& list, std::size_t count)
    : list_(list), next_(list.items_.begin()), end_(list.next_number_), left_(count) {
  auto& others = list_.listings_;
  if (others.size() == kMost) {
    others.front()->revoke();
    others.erase(others.begin());
  }
  others.push_back(this);
}

Listing::~Listing() {
  std::erase(list_.listings_, this);
}

std::string_view Listing::next() {
  --left_;
  if (removed_.empty()) return *(next_++)->key_;
  current_ = std::move(removed_.front());
  removed_.pop_front();
  removed_bytes_ -= current_.size();
  return current_;
}

void Listing::on_removal(KeyList::Item& item) {
  const bool all_listed = next_ == list_.items_.end();
  if (all_listed || item.number_ < next_->number_ || item.number_ >= end_) return;
  if (&*next_ == &item) ++next_;
  removed_.push_back(*item.key_);
  removed_bytes_ += item.key_->size();
  if (removed_bytes_ > kMostRemoved) revoke();
}

void Listing::revoke() {
  revoked_ = true;
  removed_.clear();
}

namespace {

// The overhead of an entry: nodes, hash buckets, string headers. Without it, many empty keys would
// cost nothing.
constexpr std::size_t kKeyOverhead = 192;
constexpr std::size_t kQueuedOverhead = 64;
constexpr std::size_t kWaitOverhead = 256;

std::size_t key_cost(std::string_view key) {
  return key.size() + kKeyOverhead;
}
std::size_t queued_cost(std::string_view value) {
  return value.size() + kQueuedOverhead;
}
// The name is kept twice: with the client and in the list of waiters.
std::size_t wait_cost(std::string_view key) {
  return 2 * key.size() + kWaitOverhead;
}

// Reads what C's strtoll would: blanks, a sign, digits, and then anything.
std::optional<std::int64_t> parse_counter(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  if (plus && text.starts_with('-')) return std::nullopt;
  return leading_number<std::int64_t>(text);
}

std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

}  // namespace

Result<> Store::room_for(std::size_t more) const {
  if (more <= byte_limit_ - bytes_) return {};
  return Error{Errc::system, "the store is full (" + std::to_string(byte_limit_) + " bytes)"};
}

// Stores without waking a client.
Result<> Store::put(std::string_view key, std::string_view value) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) {
    const auto room = room_for(key_cost(key) + value.size());
    if (!room) return room;
    bytes_ += key_cost(key) + value.size();
    const auto added = keys_.try_emplace(std::string(key)).first;
    added->second.value = std::make_shared<std::string>(value);
    key_list_.add(added->second, added->first);
    changed(key, nullptr, added->second.value);
    return {};
  }

  auto& stored = found->second.value;
  const auto room = room_for(value.size() - std::min(value.size(), stored->size()));
  if (!room) return room;
  bytes_ = bytes_ - stored->size() + value.size();
  const bool wasteful = stored->capacity() > 2 * value.size() + 64;
  if (wasteful || stored.use_count() > 1 || !watchers_.empty()) {
    replace(key, stored, std::string(value));
  } else {
    stored->assign(value);
  }
  return {};
}

// Makes a new string for the key: replies on their way keep the old one.
void Store::replace(std::string_view key, std::shared_ptr<std::string>& stored, std::string value) {
  const Value before = std::exchange(stored, std::make_shared<std::string>(std::move(value)));
  changed(key, before, stored);
}

Result<> Store::set(std::string_view key, std::string_view value) {
  const auto stored = put(key, value);
  if (stored) wake(key);
  return stored;
}

Result<> Store::append(std::string_view key, std::string_view suffix) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return set(key, suffix);

  const auto room = room_for(suffix.size());
  if (!room) return room;
  auto& stored = found->second.value;
  if (stored.use_count() > 1 || !watchers_.empty()) {
    replace(key, stored, *stored + std::string(suffix));
  } else {
    stored->append(suffix);
  }
  bytes_ += suffix.size();
  wake(key);
  return {};
}

Value Store::get(std::string_view key) const {
  const auto found = keys_.find(key);
  return found == keys_.end() ? nullptr : found->second.value;
}

Result<std::int64_t> Store::add(std::string_view key, std::int64_t delta) {
  std::int64_t count = delta;
  if (const auto found = keys_.find(key); found != keys_.end()) {
    const auto before = parse_counter(*found->second.value);
    if (!before) return Error{Errc::protocol, "an addition to a value that is not a number"};
    count = wrapping_sum(*before, delta);
  }
  char text[24];
  const auto end = std::to_chars(text, text + sizeof text, count).ptr;
  const auto stored = set(key, {text, static_cast<std::size_t>(end - text)});
  if (!stored) return stored.error();
  return count;
}

Result<std::string_view> Store::compare_set(std::string_view key, std::string_view expected,
                                            std::string_view desired) {
  const auto found = keys_.find(key);
  const bool missing = found == keys_.end();
  const std::string_view current = missing ? std::string_view() : *found->second.value;
  if (current == expected) {
    const auto stored = set(key, desired);
    if (!stored) return stored.error();
    return desired;
  }
  if (missing) return expected;
  wake(key);  // wakes clients at a barrier, as the newer of PyTorch's servers does
  return current;
}

bool Store::remove(std::string_view key) {
  const auto found = keys_.find(key);
  if (found == keys_.end()) return false;
  bytes_ -= key_cost(key) + found->second.value->size();
  changed(key, found->second.value, nullptr);
  key_list_.remove(found->second);
  keys_.erase(found);
  return true;
}

bool Store::has(std::string_view key) const {
  return keys_.contains(key) || (!queues_.empty() && queues_.contains(key));
}

Result<> Store::push(std::string_view queue, std::string_view value) {
  auto found = queues_.find(queue);
  const bool fresh = found == queues_.end();
  const std::size_t cost = queued_cost(value) + (fresh ? key_cost(queue) : 0);
  const auto room = room_for(cost);
  if (!room) return room;
  bytes_ += cost;
  if (fresh) found = queues_.try_emplace(std::string(queue)).first;
  found->second.emplace_back(value);
  wake_one(queue);
  return {};
}

std::size_t Store::queue_length(std::string_view queue) const {
  const auto found = queues_.find(queue);
  return found == queues_.end() ? 0 : found->second.size();
}

std::optional<std::string> Store::pop(std::string_view queue) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return std::nullopt;
  std::string value = std::move(found->second.front());
  found->second.pop_front();
  bytes_ -= queued_cost(value);
  if (found->second.empty()) {
    bytes_ -= key_cost(queue);
    queues_.erase(found);
  }
  return value;
}

Result<bool> Store::wait(ClientId client, const std::vector<std::string_view>& keys) {
  cancel_wait(client);
  if (!failure_.empty()) std::ranges::for_each(keys, [this](auto key) { set_failure_key(key); });
  std::vector<std::string_view> missing;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(missing),
               [this](std::string_view key) { return !has(key); });
  if (missing.empty()) return true;
  const auto waiting = start_wait(client, missing);
  if (!waiting) return waiting.error();
  return false;
}

Result<bool> Store::barrier(ClientId client, std::string_view key, std::int64_t count) {
  cancel_wait(client);
  std::int64_t arrived = 1;
  const auto found = keys_.find(key);
  const bool first = found == keys_.end();
  if (!first) {
    const auto before = parse_counter(*found->second.value);
    if (!before) return Error{Errc::protocol, "a barrier on a value that is not a number"};
    arrived = wrapping_sum(*before, 1);
  }
  const auto room = room_for(wait_cost(key) + key_cost(key) + 24);
  if (!room) return room.error();
  const auto stored = put(key, std::to_string(arrived));
  if (!stored) return stored.error();

  const bool complete = arrived >= count;
  if (first || complete) wake(key);  // the key exists from the first arrival
  if (complete) return true;
  const auto waiting = start_wait(client, {key});
  if (!waiting) return waiting.error();
  return false;
}

Result<> Store::start_wait(ClientId client, const std::vector<std::string_view>& missing) {
  std::size_t cost = 0;
  for (const auto key : missing) cost += wait_cost(key);
  const auto room = room_for(cost);
  if (!room) return room;

  const Ticket ticket = next_ticket_++;
  Wait& wait = waits_[client];
  wait.ticket = ticket;
  for (const auto key : missing) {
    const bool listed_twice = !wait.missing.emplace(key).second;
    if (listed_twice) continue;
    bytes_ += wait_cost(key);
    auto found = waiters_.find(key);
    if (found == waiters_.end()) found = waiters_.try_emplace(std::string(key)).first;
    found->second.emplace(ticket, client);
  }
  return {};
}

void Store::cancel_wait(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  for (const auto& key : found->second.missing) {
    bytes_ -= wait_cost(key);
    const auto waiters = waiters_.find(key);
    waiters->second.erase(found->second.ticket);
    if (waiters->second.empty()) waiters_.erase(waiters);
  }
  waits_.erase(found);
}

// Ends the wait of `client` for `key`. True: it waits for no other key.
bool Store::arrived(ClientId client, std::string_view key) {
  const auto wait = waits_.find(client);
  bytes_ -= wait_cost(key);
  wait->second.missing.erase(wait->second.missing.find(key));
  if (!wait->second.missing.empty()) return false;
  waits_.erase(wait);
  woken_.push_back(client);
  return true;
}

void Store::wake(std::string_view key) {
  if (waiters_.empty()) return;
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  const auto waiters = std::move(found->second);
  waiters_.erase(found);
  for (const auto& [ticket, client] : waiters) arrived(client, key);
}

// Wakes the first client whose wait ends with `key`. Clients before it wait for more keys, and no
// longer wait for this one.
void Store::wake_one(std::string_view key) {
  if (waiters_.empty()) return;
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  auto& waiters = found->second;
  bool done = false;
  while (!done && !waiters.empty()) {
    const ClientId client = waiters.begin()->second;
    waiters.erase(waiters.begin());
    done = arrived(client, key);
  }
  if (waiters.empty()) waiters_.erase(found);
}

void Store::notify_failure(std::string_view sentence) {
  failure_ = sentence;
  std::vector<std::string> awaited;
  for (const auto& [key, waiters] : waiters_) {
    if (key.find(kFailureKey) != key.npos) awaited.push_back(key);
  }
  for (const std::string& key : awaited) set_failure_key(key);
}

// If the store is full, this fails, and the client fails as it would without the sentence.
void Store::set_failure_key(std::string_view key) {
  if (key.find(kFailureKey) != key.npos && !has(key)) static_cast<void>(set(key, failure_));
}

Result<> Store::watch(ClientId client, std::string_view key) {
  const auto found = watchers_.find(key);
  if (found != watchers_.end() && std::count(found->second.begin(), found->second.end(), client)) {
    return {};
  }
  const auto room = room_for(wait_cost(key));
  if (!room) return room;
  bytes_ += wait_cost(key);
  watchers_[std::string(key)].push_back(client);
  watches_[client].emplace_back(key);
  return {};
}

void Store::changed(std::string_view key, const Value& before, const Value& after) {
  if (watchers_.empty()) return;
  const auto found = watchers_.find(key);
  if (found == watchers_.end()) return;
  const Change change = !before ? Change::created : !after ? Change::deleted : Change::updated;
  for (const ClientId client : found->second) {
    changes_.push_back({client, change, std::string(key), before, after});
  }
}

void Store::forget(ClientId client) {
  cancel_wait(client);
  const auto found = watches_.find(client);
  if (found == watches_.end()) return;
  for (const auto& key : found->second) {
    bytes_ -= wait_cost(key);
    const auto watchers = watchers_.find(key);
    std::erase(watchers->second, client);
    if (watchers->second.empty()) watchers_.erase(watchers);
  }
  watches_.erase(found);
}

}  // namespace ddprun::store
