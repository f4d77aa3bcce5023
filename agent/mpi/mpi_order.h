// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/job/job_spec.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::agent {

/// The settings of an MpiServer. Pure.
struct MpiOrder {
  Mpi mpi = Mpi::none;
  std::string program;  ///< of the workers
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

}  // namespace ddprun::agent
