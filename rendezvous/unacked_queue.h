// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

namespace ddprun::rendezvous {

/// What was said and may have been lost on the way: it is kept until the other side has counted it.
class UnackedQueue {
 public:
  void add(std::string frame) { frames_.push_back(std::move(frame)); }

  /// The other side has received `count` of all that were ever added. Its word is not trusted
  /// further than what is here.
  void ack(std::uint64_t count) {
    const std::uint64_t news = count > acked_ ? count - acked_ : 0;
    const auto known = std::min<std::uint64_t>(news, frames_.size());
    frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(known));
    acked_ += known;
  }

  /// In the order they were added.
  const std::deque<std::string>& unacked() const { return frames_; }

 private:
  std::deque<std::string> frames_;
  std::uint64_t acked_ = 0;
};

}  // namespace ddprun::rendezvous
