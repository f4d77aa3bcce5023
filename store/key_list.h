// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include <boost/intrusive/list.hpp>

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

}  // namespace ddprun::store
