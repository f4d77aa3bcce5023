// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "ddp/error.h"

namespace ddp::internal {

/// The content of an error as values, for programs and this library: no text is parsed.
struct ErrorFacts {
  int rank = -1;               ///< the rank whose sentence it is; -1: ddprun's, or of no one rank
  std::uint64_t number = 0;    ///< of the collective calls that differ; 0: none do
  std::vector<int> lost = {};  ///< see Error::lost_ranks()
};

struct ErrorAccess {
  static Error make(ErrorKind kind, const std::string& sentence, ErrorFacts facts);
  static const ErrorFacts& facts(const Error& error);
};

/// Whether the error of this rank is the consequence of another rank's end.
inline bool is_loss(const Error& error) {
  return error.kind() == ErrorKind::peer_lost || error.kind() == ErrorKind::left;
}

/// An internal error as the exception of the public API, with "ddp: rank N: " in front.
Error to_error(int rank, const ddprun::Error& error);

/// The same with only "ddp: " in front.
Error to_error(const ddprun::Error& error);

/// An error that a store threw, with "ddp: rank N: " in front.
Error at_rank(int rank, const Error& error);

/// Runs `work`, and rethrows its ddp::Error as at_rank(rank, error).
template <class F>
auto at_rank(int rank, F work) -> decltype(work()) {
  try {
    return work();
  } catch (const Error& error) {
    throw at_rank(rank, error);
  }
}

/// "rank 3", "ranks 1, 2 and 7".
std::string name_ranks(const std::vector<int>& ranks);

/// "30 s", "250 ms".
std::string name_time(std::chrono::milliseconds time);

}  // namespace ddp::internal
