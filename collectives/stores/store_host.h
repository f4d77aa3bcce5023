// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"

namespace ddp::internal {

/// A listening socket and its port.
struct Listening {
  ddprun::Fd socket;
  std::uint16_t port = 0;
};

/// Listens on a free port of 127.0.0.1. Throws ddp::Error of kind system.
Listening listen_on_loopback();

/// Serves ddprun's store in a thread of this process, which blocks signals, until the destructor.
/// Listens on loopback only if `address` is loopback, else on every address of the host.
class StoreHost {
 public:
  /// Port 0 means any free port. Throws ddp::Error of kind system if it cannot listen there.
  StoreHost(const std::string& address, std::uint16_t port);

  /// Serves on a socket that already listens on loopback. Closes connections of other users of the
  /// host, if the host tells whose they are.
  explicit StoreHost(Listening at);

  ~StoreHost();

  std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Serves a store on `port`, not 0, from the first call with that port until the process ends. Rank
/// 0 does that if no launcher serves one. All groups of the process share it. Thread: any.
void host_store(const std::string& address, std::uint16_t port);

}  // namespace ddp::internal
