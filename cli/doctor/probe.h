// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "cli/doctor/facts.h"
#include "cli/doctor/pairs.h"

namespace ddprun::doctor {

/// Answers the other nodes' probes at a port of its own, on threads, as long as the process lives.
/// Closes connections without the token.
class Answerer {
 public:
  /// Errors: system.
  static Result<Answerer> listen();

  std::uint16_t port() const { return port_; }
  const std::string& token() const { return token_; }

 private:
  Answerer(std::uint16_t port, std::string token) : port_(port), token_(std::move(token)) {}

  std::uint16_t port_;
  std::string token_;
};

/// Connects to the node of `facts` at `target` and asks it several times for its clock. Blocks; for
/// some seconds if no answer comes.
Link probe(int from, const Target& target, const Facts& facts);

/// Does the same, and then sends for half a second, 64 MiB at most.
Link measure(int from, const Target& target, const Facts& facts);

/// Sends for five seconds on several connections.
Link load(int from, const Target& target, const Facts& facts);

}  // namespace ddprun::doctor
