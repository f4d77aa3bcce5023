// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/trees.h"

#include <algorithm>
#include <cstring>

#include "collectives/call/call.h"
#include "collectives/call/partial_sums.h"

namespace ddp::internal {
namespace {

/// This rank's place after `root`, around the end; below, the rank with such a place.
int from_root(const CpuPart& part, int root) {
  return (part.index() + part.size() - root) % part.size();
}
int with_place(const CpuPart& part, int place, int root) {
  return part.at((place + root) % part.size());
}

}  // namespace

std::vector<int> CpuTrees::neighbours(int index, int size) {
  std::vector<int> all;
  for (int step = 1; step < size; step *= 2) {
    if (index % (2 * step) != 0) {
      all.push_back(index - step);
      break;
    }
    if (index + step < size) all.push_back(index + step);  // a child
  }
  return all;
}

/// Uses a binomial tree: the distance halves with each step.
void CpuTrees::broadcast(const CpuPart& part, char* data, std::size_t bytes, int root) {
  const int place = from_root(part, root);
  int step = 1;
  while (step < part.size()) step *= 2;
  for (step /= 2; step > 0; step /= 2) {
    const bool sends = place % (2 * step) == 0 && place + step < part.size();
    const bool receives = place % (2 * step) == step;
    if (sends) pairwise_.swap(with_place(part, place + step, root), {data, bytes}, 0, {});
    if (receives) pairwise_.swap(0, {}, with_place(part, place - step, root), {data, bytes});
  }
}

/// Uses the same tree upwards, and down again for all_reduce. Ranks send sums, which have a type of
/// their own if they are wider than elements.
void CpuTrees::reduce(const CpuPart& part, const Task& task) {
  const int root = task.operation == Operation::reduce ? task.root : 0;
  const PartialSums by(task.type, task.reduce);
  const std::size_t bytes = task.count * by.whole.sum_width;
  sums_.resize(bytes);
  theirs_.resize(bytes);
  by.whole.load(sums_.data(), task.in, task.count);
  const int place = from_root(part, root);
  for (int step = 1; step < part.size() && place % step == 0; step *= 2) {
    if (place % (2 * step) != 0) {
      pairwise_.swap(with_place(part, place - step, root), {sums_.data(), bytes}, 0, {});
      break;
    }
    if (place + step >= part.size()) continue;
    pairwise_.swap(0, {}, with_place(part, place + step, root), {theirs_.data(), bytes});
    by.between.add(sums_.data(), theirs_.data(), task.count);
  }
  if (place == 0) by.whole.store(task.out, sums_.data(), task.count, part.size());
  if (task.operation == Operation::reduce) return;
  broadcast(part, static_cast<char*>(task.out), task.count * size_of(task.type), root);
}

/// Uses the tree of broadcast() upwards: the blocks that a rank has lie side by side.
void CpuTrees::gather(const CpuPart& part, char* out, std::size_t bytes) {
  const auto block = [&](int index) { return out + static_cast<std::size_t>(index) * bytes; };
  const auto length = [&](int index, int step) {
    return static_cast<std::size_t>(std::min(step, part.size() - index)) * bytes;
  };
  const int own = part.index();
  for (int step = 1; step < part.size(); step *= 2) {
    if (own % (2 * step) != 0) {
      return pairwise_.swap(part.at(own - step), {block(own), length(own, step)}, 0, {});
    }
    const int child = own + step;
    if (child < part.size()) {
      pairwise_.swap(0, {}, part.at(child), {block(child), length(child, step)});
    }
  }
}

/// Uses Bruck's algorithm (Bruck et al.: Efficient Algorithms for All-to-All Communications in
/// Multiport Message-Passing Systems, 1997): a rank's data doubles with each step.
void CpuTrees::all_gather(const CpuPart& part, char* out, std::size_t bytes) {
  if (bytes == 0) return;
  const auto size = static_cast<std::size_t>(part.size());
  const auto own = static_cast<std::size_t>(part.index());
  blocks_.resize(size * bytes);  // this rank's block and those after it
  std::memcpy(blocks_.data(), out + own * bytes, bytes);
  for (std::size_t have = 1; have < size; have *= 2) {
    const int step = static_cast<int>(have);
    const std::size_t length = std::min(have, size - have) * bytes;
    pairwise_.swap(part.at(part.before(step)), {blocks_.data(), length}, part.at(part.after(step)),
                   {blocks_.data() + have * bytes, length});
  }
  const std::size_t behind = (size - own) * bytes;
  std::memcpy(out + own * bytes, blocks_.data(), behind);
  std::memcpy(out, blocks_.data() + behind, own * bytes);
}

}  // namespace ddp::internal
