// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/failure_broadcast.h"

#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/signal_masked_thread.h"
#include "ddp/error.h"
#include "store/protocol.h"

namespace ddp::internal {
namespace {

constexpr std::chrono::milliseconds kUntilTold = std::chrono::hours(24 * 365);
constexpr std::string_view kTrouble = "in group ";  // what a rank tells begins with it

}  // namespace

FailureBroadcast::FailureBroadcast(std::shared_ptr<Store> store, std::string prefix, int rank,
                                   int size, Events events)
    : store_(std::move(store)), prefix_(std::move(prefix)), rank_(rank), size_(size) {
  listener_ = signal_masked_thread(
      [from = store_, own = key(rank), acted = acted_, heard = std::move(events)] {
        std::string told;
        try {
          told = from->get(own, kUntilTold);
        } catch (const Error&) {
          return;
        }
        if (told.empty() || acted->exchange(true)) return;
        if (told.starts_with(kTrouble)) return heard.trouble(told.substr(kTrouble.size()));
        heard.loss(told);
      });
}

FailureBroadcast::~FailureBroadcast() {
  try {
    if (!store_->check({key(rank_)})) store_->set(key(rank_), "");
    listener_.join();
  } catch (const Error&) {
    listener_.detach();  // it may wait for a store that does not even hang up
  }
}

std::string FailureBroadcast::key(int rank) const {
  return prefix_ + std::string(ddprun::store::kFailureKey) + std::to_string(rank);
}

void FailureBroadcast::raise(const std::string& group) {
  if (acted_->exchange(true)) return;
  // A thousand ranks may see the same at once, and each would tell a thousand.
  if (store_->add(prefix_ + "broadcast-raised", 1) > 1) return;
  std::vector<std::pair<std::string, std::string>> entries;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) entries.emplace_back(key(rank), std::string(kTrouble) + group);
  }
  store_->multi_set(entries);
}

}  // namespace ddp::internal
