// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace ddp::internal {

/// What the launcher tells a worker by environment variables.
struct Environment {
  int rank = 0;
  int size = 1;
  std::string master_addr;        ///< empty when size is 1
  std::uint16_t master_port = 0;  ///< 0 when size is 1
  bool agent_store = false;       ///< the launcher serves the store; else rank 0 does
};

/// Throws ddp::Error of kind usage that names the variable, its value and what would be right.
Environment read_environment();

}  // namespace ddp::internal
