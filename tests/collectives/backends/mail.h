// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ddp/process_group.h>
#include <list>
#include <string>
#include <vector>

#include "collectives/backends/cpu/frame.h"
#include "tests/collectives/in_rank.h"

namespace ddprun::tests {

using Elements = std::vector<float>;

inline constexpr std::size_t kShort =
    ddp::internal::Frame::kShort / sizeof(float);  // the longest that is sent without a receive
inline constexpr std::size_t kLong = 700'001;      // some pieces

/// The content of the message with this tag from this rank.
inline Elements elements(int rank, int tag, std::size_t count) {
  Elements all(count);
  for (std::size_t i = 0; i < count; ++i) {
    all[i] = static_cast<float>((i * 31 + static_cast<std::size_t>(rank * 1009 + tag * 17)) % 4096);
  }
  return all;
}

/// Begun receives and sends, and their data.
class Mail {
 public:
  explicit Mail(ddp::ProcessGroup& group) : group_(group) {}

  void send(int to, int tag, std::size_t count) {
    const Elements& data = sent_.emplace_back(elements(group_.rank(), tag, count));
    works_.push_back(group_.isend(data, to, tag));
  }
  void receive(int from, int tag, std::size_t count) {
    Received& message = received_.emplace_back(Received{from, tag, Elements(count, -1)});
    works_.push_back(group_.irecv(message.data, from, tag));
  }

  /// Waits from the last to the first.
  void wait() {
    for (std::size_t i = works_.size(); i-- > 0;) {
      works_[i].wait();
      check(works_[i].is_completed() && !works_[i].error(), "waited for, and not completed");
    }
    for (const auto& [from, tag, data] : received_) {
      check(data == elements(from, tag, data.size()),
            "tag " + std::to_string(tag) + " from rank " + std::to_string(from));
    }
    works_.clear();
    received_.clear();
    sent_.clear();
  }

 private:
  struct Received {
    int from;
    int tag;
    Elements data;
  };

  ddp::ProcessGroup& group_;
  std::list<Elements> sent_;
  std::list<Received> received_;
  std::vector<ddp::Work> works_;
};

/// All ranks exchange messages with all others, whichever half is begun first.
inline void both_ways(ddp::ProcessGroup& group) {
  for (const bool sends_first : {true, false}) {
    Mail mail(group);
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, kShort, kShort + 1, kLong}) {
      const auto send = [&](int other) { mail.send(other, 4, count); };
      const auto receive = [&](int other) { mail.receive(other, 4, count); };
      for (int other = 0; other < group.size(); ++other) {
        if (other == group.rank()) continue;
        sends_first ? send(other) : receive(other);
        sends_first ? receive(other) : send(other);
      }
    }
    mail.wait();
  }
  group.barrier();
}

}  // namespace ddprun::tests
