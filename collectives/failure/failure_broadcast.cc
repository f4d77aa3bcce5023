// SPDX-License-Identifier: Apache-2.0
#include "collectives/failure/failure_broadcast.h"

#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/signal_masked_thread.h"
#include "collectives/time_limit.h"
#include "ddp/error.h"
#include "store/wire.h"

namespace ddp::internal {
namespace {

constexpr std::string_view kFailureMark = "in group ";  // begins a rank's text, but not ddprun's

}  // namespace

FailureBroadcast::FailureBroadcast(std::shared_ptr<Store> store, std::string prefix, int rank,
                                   int size, Events events)
    : store_(std::move(store)), prefix_(std::move(prefix)), rank_(rank), size_(size) {
  listener_ = signal_masked_thread(
      [from = store_, own = key(rank), size, handled = handled_, notify = std::move(events)] {
        std::string message;
        try {
          message = from->get(own, kForever);
        } catch (const Error&) {
          return;
        }
        if (message.empty() || handled->exchange(true)) return;
        if (message.starts_with(kFailureMark)) {
          return notify.failure(message.substr(kFailureMark.size()));
        }
        int lost = -1;  // see loss_text(); older releases of ddprun send the sentence alone
        const char* const end = message.data() + message.size();
        const char* text = std::from_chars(message.data(), end, lost).ptr;
        if (text != message.data() && text != end) ++text;
        if (lost >= size) lost = -1;  // the ranks of the group are not those of ddprun
        notify.loss(lost, std::string(text, end));
      });
}

FailureBroadcast::~FailureBroadcast() {
  try {
    if (!store_->check({key(rank_)})) store_->set(key(rank_), "");
    listener_.join();
  } catch (const Error&) {
    listener_.detach();  // it may block: the store neither answers nor closes the connection
  }
}

std::string FailureBroadcast::key(int rank) const {
  return prefix_ + std::string(ddprun::store::kFailureKey) + std::to_string(rank);
}

void FailureBroadcast::raise(const std::string& group) {
  if (handled_->exchange(true)) return;
  // Only the first rank notifies: a thousand ranks may see the same failure at once.
  if (store_->add(prefix_ + "broadcast-raised", 1) > 1) return;
  std::vector<std::pair<std::string, std::string>> entries;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) entries.emplace_back(key(rank), std::string(kFailureMark) + group);
  }
  store_->multi_set(entries);
}

}  // namespace ddp::internal
