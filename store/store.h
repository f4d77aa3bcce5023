// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "base/error.h"

namespace ddprun::store {

class Listing;

/// The keys of a store in the order of their creation. A Listing reads them piece by piece while
/// keys come and go. Pure.
class KeyList {
 public:
  /// Part of a key's entry in the store's table.
  class Item : public boost::intrusive::list_base_hook<
                   boost::intrusive::link_mode<boost::intrusive::normal_link>> {
    friend class KeyList;
    friend class Listing;
    const std::string* key_ = nullptr;
    std::uint64_t number_ = 0;
  };

  /// `key` lives in the table as long as `item` does.
  void add(Item& item, const std::string& key);
  void remove(Item& item);

 private:
  friend class Listing;
  using Items = boost::intrusive::list<Item, boost::intrusive::constant_time_size<false>>;

  Items items_;
  std::uint64_t next_number_ = 0;
  std::vector<Listing*> listings_;  // oldest first
};

/// The keys that a list had when the listing began, even those removed since.
///
/// A list has at most kMost listings: one more revokes the oldest. A listing is also revoked if it
/// holds more than kMostRemoved bytes of keys that were removed before it came to them.
class Listing {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kMostRemoved = 1 << 20;

  /// Begins with `count`, the number of keys in `list`, still to come.
  Listing(KeyList& list, std::size_t count);
  ~Listing();
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  /// How many keys are still to come.
  std::size_t left() const { return left_; }

  /// Whether it can no longer be completed: then next() must not be called.
  bool revoked() const { return revoked_; }

  /// The next remaining key. Valid until the next call of anything here.
  std::string_view next();

 private:
  friend class KeyList;

  void on_removal(KeyList::Item& item);
  void revoke();

  KeyList& list_;
  KeyList::Items::iterator next_;
  std::uint64_t end_;  // from this number on, keys are younger than the listing
  std::size_t left_;
  std::deque<std::string> removed_;  // removed keys that are still to come
  std::size_t removed_bytes_ = 0;
  std::string current_;
  bool revoked_ = false;
};

/// A client of the store. The caller numbers its clients and never uses a number twice.
using ClientId = std::uint64_t;

/// A stored value. Replies on their way share it, so a large one is never copied for each reader.
using Value = std::shared_ptr<const std::string>;

/// How a watched key has changed.
enum class Change : std::uint8_t { updated = 0, created = 1, deleted = 2 };

/// One change, for one watching client.
struct WatchEvent {
  ClientId client;
  Change change;
  std::string key;
  Value before;  ///< nullptr when created
  Value after;   ///< nullptr when deleted
};

/// Keys and values, counters, queues and the clients that wait for them: c10d's store without its
/// wire.
///
/// Pure: nothing blocks, and the clients to wake are returned as data (take_woken, take_changes).
/// Keys and values are any bytes. A call that fails stores nothing.
class Store {
 public:
  /// `byte_limit` bounds keys, values, queues and registered waits together, with their overhead.
  /// Calls that would exceed it fail with Errc::system.
  explicit Store(std::size_t byte_limit) : byte_limit_(byte_limit) {}

  Result<> set(std::string_view key, std::string_view value);
  Result<> append(std::string_view key, std::string_view suffix);

  /// nullptr: there is no such key.
  Value get(std::string_view key) const;

  /// Adds to a counter, which is stored as decimal text. A missing one counts as 0, and the sum
  /// wraps. Errors: also protocol (the value does not start with a number).
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);

  /// Stores `desired` if the value is `expected` (a missing key equals empty). Returns the value
  /// afterwards, or `expected` if the key is missing. The view is valid until the next call.
  Result<std::string_view> compare_set(std::string_view key, std::string_view expected,
                                       std::string_view desired);

  /// Removes the key; returns whether it existed. Wakes no client.
  bool remove(std::string_view key);

  /// Whether there is such a key, or such a queue that is not empty.
  bool has(std::string_view key) const;

  std::size_t key_count() const { return keys_.size(); }

  /// The keys in the order of their creation, for a Listing.
  KeyList& key_list() { return key_list_; }

  /// Queues have names of their own: only has() and wait() see both. A push wakes the client that
  /// has waited longest.
  Result<> push(std::string_view queue, std::string_view value);
  std::size_t queue_length(std::string_view queue) const;
  std::optional<std::string> pop(std::string_view queue);

  /// True: all keys exist. Otherwise take_woken() has `client` once each missing key was created
  /// (it may be gone again by then). A new wait or barrier replaces the client's old one.
  Result<bool> wait(ClientId client, const std::vector<std::string_view>& keys);

  /// Counts one arrival in the counter `key`. True: `count` or more have come, and the waiting
  /// clients are woken. Otherwise as in wait(). The arrival counts even if the client disconnects.
  Result<bool> barrier(ClientId client, std::string_view key, std::int64_t count);

  void cancel_wait(ClientId client);

  /// Sets to `sentence` every missing key with kFailureKey in its name that a client waits for, now
  /// or later.
  void notify_failure(std::string_view sentence);

  /// From now on take_changes() contains each change of `key`.
  Result<> watch(ClientId client, std::string_view key);

  /// Removes the client's wait and its watches. Its keys stay.
  void forget(ClientId client);

  /// Clients to wake and changes to send since the last take, in order.
  bool has_events() const { return !woken_.empty() || !changes_.empty(); }
  std::vector<ClientId> take_woken() { return std::exchange(woken_, {}); }
  std::vector<WatchEvent> take_changes() { return std::exchange(changes_, {}); }

  /// The bytes that count against the limit.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const {
      return std::hash<std::string_view>()(key);
    }
  };
  template <class T>
  using Table = std::unordered_map<std::string, T, Hash, std::equal_to<>>;
  using Ticket = std::uint64_t;  // counts registrations: the order of the waiters

  struct Entry : KeyList::Item {
    std::shared_ptr<std::string> value;
  };

  struct Wait {
    Ticket ticket;
    std::unordered_set<std::string, Hash, std::equal_to<>> missing;
  };

  Result<> room_for(std::size_t more) const;
  Result<> put(std::string_view key, std::string_view value);
  void replace(std::string_view key, std::shared_ptr<std::string>& stored, std::string value);
  void changed(std::string_view key, const Value& before, const Value& after);
  Result<> start_wait(ClientId client, const std::vector<std::string_view>& missing);
  bool arrived(ClientId client, std::string_view key);
  void wake(std::string_view key);
  void wake_one(std::string_view key);
  void set_failure_key(std::string_view key);

  std::size_t byte_limit_;
  std::size_t bytes_ = 0;
  Table<Entry> keys_;
  KeyList key_list_;  // of the entries in keys_
  Table<std::deque<std::string>> queues_;

  Ticket next_ticket_ = 0;
  Table<std::map<Ticket, ClientId>> waiters_;  // by missing key
  std::unordered_map<ClientId, Wait> waits_;
  Table<std::vector<ClientId>> watchers_;
  std::unordered_map<ClientId, std::vector<std::string>> watches_;

  std::string failure_;  // empty: no failure

  std::vector<ClientId> woken_;
  std::vector<WatchEvent> changes_;
};

}  // namespace ddprun::store
