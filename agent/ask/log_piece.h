// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ddprun::agent::ask {

/// A piece of what a worker has written, as JSON and back. Pure.
struct LogPiece {
  int rank = 0;
  int round = 0;                   ///< the round that wrote it; each begins at 0
  std::uint64_t from = 0;          ///< bytes that the worker wrote before the piece
  std::uint64_t next = 0;          ///< where the next piece begins
  std::string text;                ///< empty: the worker has written no more
  std::vector<std::string> files;  ///< files that the worker writes itself; not in `text`
};

/// The most bytes of a piece: as JSON they fit into an answer to another node.
inline constexpr size_t kMaxPiece = 8'000;

/// Makes a piece of at most kMaxPiece `bytes`. Leaves an incomplete UTF-8 character at their end to
/// the next piece.
LogPiece log_piece(int rank, int round, std::uint64_t from, std::string bytes);

/// Compact JSON; replaces invalid UTF-8.
std::string to_json(const LogPiece& piece);

/// Errors: protocol, naming the field that is wrong.
Result<LogPiece> log_piece_in(std::string_view text);

}  // namespace ddprun::agent::ask
