// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/layout.h"

namespace ddprun::agent {

/// A message of a round's MpiServer to its agent. Pure.
struct MpiNews {
  enum class Kind : char {
    called_init = 'i',  ///< the rank is in MPI_Init, or has been
    finalized = 'f',    ///< the rank has called MPI_Finalize
    aborted = 'a',      ///< the rank has called MPI_Abort with `code`
    variable = 'v',     ///< `text` belongs into the environment of every rank
    ready = 'r',        ///< the ranks may be started
    known = 'k',        ///< all that the ended rank has sent is read: the answer to "ended"
    warning = 'w',      ///< `text` is for the user
    failed = 'x',       ///< the round cannot go on, because of `text`
  };

  Kind kind = Kind::warning;
  int local_rank = 0;
  int code = 0;
  std::string text = {};  ///< one printable line
};

/// The warning about a rank that called MPI_Comm_spawn.
MpiNews spawn_refused(int local_rank, const rendezvous::Layout& layout);

/// Returns the news as a line, with its newline.
std::string line_of(const MpiNews& news);

/// The news in a line without its newline; nullopt: it is malformed, or about a rank that a node
/// with `local_size` workers does not have.
std::optional<MpiNews> parse_mpi_news(std::string_view line, int local_size);

}  // namespace ddprun::agent
