// SPDX-License-Identifier: Apache-2.0
#include "engine/allocation.h"

#include "base/hash.h"

namespace ddprun::engine {

std::vector<std::uint16_t> ports_of(std::string_view job) {
  constexpr unsigned kFirst = 10'000, kPorts = 20'000, kCandidates = 4;
  Fnv32 hash;
  hash.add(job);
  std::vector<std::uint16_t> ports;
  for (unsigned i = 0; i < kCandidates; ++i) {
    ports.push_back(static_cast<std::uint16_t>(kFirst + (hash.value() + i * 4'999) % kPorts));
  }
  return ports;
}

}  // namespace ddprun::engine
