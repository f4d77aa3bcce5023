// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

// The stacks of many ranks as one tree: ranks with the same outer frames share these. Pure.

namespace ddprun::agent {

/// The place of one rank's main thread.
struct RankStack {
  int rank = 0;                     ///< global
  std::vector<std::string> frames;  ///< "main (train.py:101)", the outermost first
  std::string state;                ///< what the kernel says: "waiting (futex)"
  double seconds = 0;               ///< how long it has not run; 0: unknown
};

/// A call, and all that is called from it.
struct StackNode {
  std::string at;          ///< the frame, or the state in brackets, which ends each stack
  std::vector<int> ranks;  ///< in no order
  double seconds = 0;      ///< at the end of a stack: no rank has run for at least so long
  std::vector<StackNode> in = {};
  std::unordered_map<std::string, size_t> places = {};  ///< in a StackTree: index in `in`, by `at`
};

/// Bounded: cuts a frame to kLongestFrame bytes. From kMostNodes on, all new calls from a node are
/// one node "...".
class StackTree {
 public:
  static constexpr size_t kLongestFrame = 160;
  static constexpr size_t kMostNodes = 20'000;

  /// Adds `stack`. If it has more than `most_frames` frames, leaves out the middle.
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
