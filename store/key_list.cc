// SPDX-License-Identifier: Apache-2.0
#include "store/key_list.h"

#include <utility>

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

}  // namespace ddprun::store
