// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/fd.h"

namespace ddp::internal {

/// A socket that listens.
struct Listening {
  ddprun::Fd socket;
  std::uint16_t port = 0;
};

/// On a free port of 127.0.0.1. Throws ddp::Error of kind system.
Listening listen_on_loopback();

/// ddprun's store served by this process, in a thread of its own that takes no signals, until the
/// destructor. Listens on loopback alone when `address` is loopback, else on every address of the
/// host.
class StoreHost {
 public:
  /// Port 0 is a free one. Throws ddp::Error of kind system when the port cannot be had.
  StoreHost(const std::string& address, std::uint16_t port);

  /// Serves at a socket that listens already.
  explicit StoreHost(Listening at);

  ~StoreHost();

  std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Serves a store on `port`, not 0, from the first call with it until the process ends: what rank 0
/// does when no launcher serves one, for as many groups as there are. Thread: any.
void host_store(const std::string& address, std::uint16_t port);

}  // namespace ddp::internal
