// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace ddprun::rendezvous {

/// The releases of the library with which the ranks of a job make their collective calls. Pure.
class Releases {
 public:
  /// `release`, such as "PyTorch 2.15.0", is the word of `host`, which has these ranks.
  void add(const std::string& release, const std::vector<int>& ranks, const std::string& host);

  /// "rank 3 (gpu-02) has PyTorch 2.12.0, ranks 0-2 (gpu-01, gpu-02) have PyTorch 2.15.0". Empty:
  /// all have the same, or no release is known.
  std::string text() const;

 private:
  struct Holders {
    std::set<int> ranks;
    std::vector<std::string> hosts;
  };

  std::map<std::string, Holders> releases_;
};

}  // namespace ddprun::rendezvous
