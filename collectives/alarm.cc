// SPDX-License-Identifier: Apache-2.0
#include "collectives/alarm.h"

#include <chrono>
#include <utility>
#include <vector>

#include "collectives/quiet_thread.h"
#include "ddp/error.h"

namespace ddp::internal {
namespace {

constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);

}  // namespace

Alarm::Alarm(std::shared_ptr<Store> store, std::string prefix, int rank, int size,
             std::function<void(const std::string& group)> heard)
    : store_(std::move(store)), prefix_(std::move(prefix)), rank_(rank), size_(size) {
  listener_ = quiet_thread([from = store_, own = key(rank), told = std::move(heard)] {
    std::string group;
    try {
      group = from->get(own, kForever);
    } catch (const Error&) {
      return;
    }
    if (!group.empty()) told(group);
  });
}

Alarm::~Alarm() {
  try {
    if (!store_->check({key(rank_)})) store_->set(key(rank_), "");
    listener_.join();
  } catch (const Error&) {
    listener_.detach();  // it may wait for a store that does not even hang up
  }
}

void Alarm::raise(const std::string& group) {
  std::vector<std::pair<std::string, std::string>> entries;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) entries.emplace_back(key(rank), group);
  }
  store_->multi_set(entries);
}

}  // namespace ddp::internal
