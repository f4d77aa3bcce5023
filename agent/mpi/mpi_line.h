// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/job/job_spec.h"
#include "launcher/process/exit_status.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

// The lines between the agent and the MpiServer of a round, and what they say about a rank. Pure.

namespace ddprun::agent {

/// The settings of an MpiServer: what the agent tells it.
struct MpiOrder {
  Mpi mpi = Mpi::none;
  bool survives = false;  ///< ranks survive the loss of others
  std::string program;    ///< of the workers
  rendezvous::Layout layout;
  rendezvous::Endpoint store;  ///< the round's
  std::vector<int> sockets;    ///< its end of each rank's PMI_FD, by local rank
};

/// Returns the order as arguments of ddprun, without its name.
std::vector<std::string> arguments_of(const MpiOrder& order);

/// Whether these arguments are of an MpiServer.
bool is_mpi_server(std::span<const std::string> arguments);

/// Reads them; nullopt: they are malformed.
std::optional<MpiOrder> order_of(std::span<const std::string> arguments);

/// A message of a round's MpiServer to its agent.
struct MpiNews {
  enum class Kind : char {
    called_init = 'i',  ///< the rank is in MPI_Init, or has been
    finalized = 'f',    ///< the rank has called MPI_Finalize
    aborted = 'a',      ///< the rank has called MPI_Abort with `code`
    variable = 'v',     ///< `text` belongs into the environment of every rank
    ready = 'r',        ///< the ranks may be started
    known = 'k',        ///< the answer to a line about this rank: see MpiQuestion
    warning = 'w',      ///< `text` is for the user
    failed = 'x',       ///< the round cannot go on, because of `text`
  };

  Kind kind = Kind::warning;
  int local_rank = 0;
  int code = 0;
  std::string text = {};  ///< one printable line
};

/// The agent's questions to an MpiServer about a rank whose process has ended. The MpiServer
/// answers each with MpiNews::known.
enum class MpiQuestion : char {
  ended = 'e',  ///< answered when all that the rank had sent is read
  lost = 'l',   ///< notify the others, which survive it; `code` 1: some are left, 0: none
};

/// Returns it as a line, with its newline.
std::string line_of(MpiQuestion question, int local_rank);

/// The question in a line without its newline, and its local rank; nullopt: it is malformed.
std::optional<std::pair<MpiQuestion, int>> parse_mpi_question(std::string_view line,
                                                              int local_size);

/// Parts of MPI that ddprun does not serve.
enum class Unserved {
  spawn,  ///< MPI_Comm_spawn
  names,  ///< MPI_Publish_name and the calls that look for names, as MPI_Comm_accept of Open MPI
};

/// The warning about a rank that called for one of them.
MpiNews refusal_of(Unserved part, int local_rank, const rendezvous::Layout& layout);

/// Returns the news as a line, with its newline.
std::string line_of(const MpiNews& news);

/// The news in a line without its newline; nullopt: it is malformed, or about a rank that a node
/// with `local_size` workers does not have.
std::optional<MpiNews> parse_mpi_news(std::string_view line, int local_size);

/// The calls of MPI that a rank has made.
struct MpiRank {
  bool called_init = false;
  bool finalized = false;
  std::optional<int> abort_code = {};
};

/// Whether the other ranks may survive the end of this one's process, by ULFM: they are connected
/// to it, and it has not ended them on purpose.
constexpr bool is_survivable(const MpiRank& rank) {
  return rank.called_init && !rank.finalized && !rank.abort_code;
}

/// How a rank of MPI has failed.
struct MpiFailure {
  launcher::ExitStatus status;
  std::string cause;
};

/// Whether a rank of a job with several has failed, as MPI sees it: it called MPI_Abort, or has
/// ended with exit code 0 and without MPI_Finalize, for which the others would wait. nullopt: MPI
/// knows no more than `status`.
std::optional<MpiFailure> mpi_failure(const MpiRank& rank, launcher::ExitStatus status,
                                      int world_size);

}  // namespace ddprun::agent
