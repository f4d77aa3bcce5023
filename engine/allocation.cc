// SPDX-License-Identifier: Apache-2.0
#include "engine/allocation.h"

namespace ddprun::engine {

std::vector<std::uint16_t> ports_of(std::string_view job) {
  constexpr unsigned kFirst = 10'000, kPorts = 20'000, kCandidates = 4;
  std::uint32_t hash = 2'166'136'261;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
  std::vector<std::uint16_t> ports;
  for (unsigned i = 0; i < kCandidates; ++i) {
    ports.push_back(static_cast<std::uint16_t>(kFirst + (hash + i * 4'999) % kPorts));
  }
  return ports;
}

}  // namespace ddprun::engine
