// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

namespace ddprun::agent {

/// Serves MPI to the ranks of one node in one round: a process of its own, which is this program
/// again, as a child of the agent. It may wait for other nodes, and crash, without harm to the
/// agent. It ends when the agent closes their socket, which is its stdin and stdout: on it come
/// MpiQuestions, and go MpiNews.
///
/// The main() of that process, with the arguments of an MpiOrder: its exit code.
int run_mpi_server(std::span<const std::string> arguments);

}  // namespace ddprun::agent
