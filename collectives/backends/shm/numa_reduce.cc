// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/shm/numa_reduce.h"

#include <algorithm>

#include "collectives/backends/shm/copy.h"
#include "collectives/call/blocks.h"
#include "collectives/call/call.h"

namespace ddp::internal {
namespace {

/// From this size on, moving data takes most of a call's time. (Not measured on such a host.)
constexpr std::size_t kLeastOfNodes = std::size_t{1} << 20;

/// Shares begin with a cache line, if the data does.
constexpr std::size_t kShareStart = 64;

}  // namespace

bool ShmNumaReduce::suits(const Task& task) const {
  return nodes_.are_several() && task.operation == Operation::all_reduce &&
         task.count * size_of(task.type) >= kLeastOfNodes;
}

void ShmNumaReduce::run(const Task& task, const ShmPlace& in, const ShmPlace& out,
                        const std::function<void()>& exchange) {
  const std::size_t width = size_of(task.type);
  const std::size_t sum_width = PartialSums(task.type, task.reduce).whole.sum_width;
  const std::size_t in_line = kShareStart / width;
  const auto places = static_cast<int>(nodes_.own().size());
  const Blocks lines = Blocks::even(task.count / in_line, places);
  const auto begin_of = [&](int place) {
    return place == places ? task.count : lines.begin(place) * in_line;
  };
  // The last share may be the longest.
  const std::size_t longest = task.count - begin_of(places - 1);
  const std::size_t begin = begin_of(nodes_.place());
  const std::size_t count = begin_of(nodes_.place() + 1) - begin;
  const std::size_t piece = kShmPiece / sum_width;
  const std::size_t stretch = sums_.size() / sum_width;
  for (std::size_t done = 0; done < longest; done += piece) {
    const std::size_t end = std::min(done + piece, count);
    const auto each_stretch = [&](const auto& work) {
      for (std::size_t at = done; at < end; at += stretch) {
        rounds_.check_stopped();
        work(Stretch{(begin + at) * width, std::min(stretch, end - at)}, (at - done) * sum_width);
      }
    };
    char* const shown = rounds_.out(kShmPiece);
    each_stretch([&](Stretch own, std::size_t at) { combine_own(task, in, own, shown + at); });
    exchange();
    each_stretch([&](Stretch own, std::size_t at) { finish(task, out, own, at); });
  }
  end_results(task.count * width);
}

/// Combines the elements of the ranks of this node.
void ShmNumaReduce::combine_own(const Task& task, const ShmPlace& in, Stretch stretch, char* sums) {
  const PartialSums by(task.type, task.reduce);
  parts_.clear();
  for (const int rank : nodes_.own()) parts_.push_back(in.of(rank) + stretch.at);
  if (!by.is_wider) {
    by.between.combine(sums, parts_.data(), static_cast<int>(parts_.size()), stretch.count);
    return;
  }
  by.whole.load(sums, parts_.front(), stretch.count);
  for (std::size_t i = 1; i < parts_.size(); ++i) by.whole.add(sums, parts_[i], stretch.count);
}

/// Writes the sums of all nodes, shown from `shown` on, to the ranks of this node.
void ShmNumaReduce::finish(const Task& task, const ShmPlace& out, Stretch stretch,
                           std::size_t shown) {
  const PartialSums by(task.type, task.reduce);
  const std::size_t bytes = stretch.count * size_of(task.type);
  const std::size_t whole = task.in == task.out ? 0 : task.count * size_of(task.type);
  parts_.clear();
  for (const int rank : nodes_.counterparts()) {
    parts_.push_back(rounds_.data_of(rank, kShmPiece) + shown);
  }
  by.between.combine(sums_.data(), parts_.data(), static_cast<int>(parts_.size()), stretch.count);
  by.whole.store(results_.data(), sums_.data(), stretch.count, size_);
  for (const int rank : nodes_.own()) {
    copy_result(out.of(rank) + stretch.at, results_.data(), bytes, whole);
  }
}

}  // namespace ddp::internal
