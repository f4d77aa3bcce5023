// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace ddprun::doctor {

/// ok: no problem; warn: works, but slowly or not for long; fail: the job would not work.
enum class Level { ok, warn, fail };

/// One result of `ddprun doctor`. Pure.
struct Finding {
  Level level = Level::ok;
  std::string check;            ///< what is checked: "shared memory"
  std::string text;             ///< the result; empty: nothing to say
  std::string remedy;           ///< what to do; empty for ok
  std::vector<int> nodes = {};  ///< the nodes concerned; empty: none in particular
};

using Findings = std::vector<Finding>;

}  // namespace ddprun::doctor
