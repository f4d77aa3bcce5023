// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

// The stacks of many ranks as one tree: ranks that went the same way share its beginning. Pure.

namespace ddprun::agent {

/// Where the main thread of one rank is.
struct RankStack {
  int rank = 0;                     ///< global
  std::vector<std::string> frames;  ///< "main (train.py:101)", the outermost first
  std::string state;                ///< what the kernel says: "waiting (futex)"
  double seconds = 0;               ///< for which it has not run; 0: unknown
};

/// A call, and all that is called from it.
struct StackNode {
  std::string at;          ///< the frame, or the state in brackets, which ends each stack
  std::vector<int> ranks;  ///< in no order
  double seconds = 0;      ///< at the end of a stack: for which each rank has not run at least
  std::vector<StackNode> in = {};
  std::unordered_map<std::string, size_t> places = {};  ///< in a StackTree: those of `in`, by `at`
};

/// Bounded: a frame is cut to kLongestFrame bytes, and what exceeds kMostNodes is one node "..." in
/// its place.
class StackTree {
 public:
  static constexpr size_t kLongestFrame = 160;
  static constexpr size_t kMostNodes = 20'000;

  /// Of `stack` at most `most_frames` frames: of a deeper one the middle is left out.
  void add(const RankStack& stack, size_t most_frames = 64);

  /// Adds a tree, of other ranks, at the root.
  void merge(const StackNode& root) { merge(root_, root, 0); }

  /// Its `in` are the outermost calls, its `ranks` all ranks.
  const StackNode& root() const { return root_; }

 private:
  StackNode& child(StackNode& parent, const std::string& at);
  void merge(StackNode& into, const StackNode& from, size_t depth);

  StackNode root_;
  size_t nodes_ = 0;
};

}  // namespace ddprun::agent
