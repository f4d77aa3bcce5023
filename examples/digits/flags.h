// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace digits {

struct Crash {
  int epoch = 0;  ///< from 1
  int rank = 0;
};

struct Flags {
  std::string data;        ///< path of the digits
  std::string checkpoint;  ///< path; empty: no checkpoints
  int epochs = 10;
  int batch = 32;  ///< of all ranks together
  float rate = 0.05F;
  std::uint64_t seed = 1;
  std::optional<Crash> crash_at;
};

/// Reads argv. --help prints and exits 0; a bad flag prints one line and exits 2.
Flags parse_flags(int argc, char** argv);

}  // namespace digits
