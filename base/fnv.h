// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun {

/// The hash FNV-1a (RFC 9923) with its offset basis and prime. Detects accidental changes, not
/// deliberate ones.
template <class Word, Word kBasis, Word kPrime>
class Fnv {
 public:
  void add(std::string_view bytes) {
    for (const char byte : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * kPrime;
  }
  Word value() const { return hash_; }

 private:
  Word hash_ = kBasis;
};

using Fnv32 = Fnv<std::uint32_t, 2166136261U, 16777619U>;
using Fnv64 = Fnv<std::uint64_t, 0xcbf29ce484222325U, 0x100000001b3U>;

}  // namespace ddprun
