// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ddprun {

/// SHA-256 (FIPS 180-4) of `text`, as 64 hexadecimal digits. For short texts on hosts that may lack
/// OpenSSL.
std::string sha256(std::string_view text);

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
