// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdlib>
#include <ddp/tcp_store.h>
#include <memory>

namespace ddprun::tests {

/// A rank's own connection to the launcher's store.
inline std::shared_ptr<ddp::TcpStore> job_store() {
  return std::make_shared<ddp::TcpStore>(
      std::getenv("MASTER_ADDR"),
      static_cast<std::uint16_t>(std::atoi(std::getenv("MASTER_PORT"))));
}

}  // namespace ddprun::tests
