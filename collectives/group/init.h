// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collectives/group/environment.h"
#include "ddp/process_group.h"
#include "ddp/store.h"

namespace ddp::internal {

/// How the ranks of a group find each other.
struct Rendezvous {
  RankInfo place;
  std::shared_ptr<Store> store;  ///< none when the group has one rank
  std::string address;           ///< of this host, numeric: where other ranks reach this one
  std::string prefix;            ///< of the group's keys, ends with '/'
  bool rank_0_serves = false;    ///< the store ends with rank 0's process
};

/// Does what the options say: finds this process's place and the store, which it serves where rank
/// 0 has to. Throws ddp::Error.
Rendezvous rendezvous(const Options& options, std::chrono::milliseconds timeout);

/// Throws ddp::Error of kind usage unless it is more than 0.
void check_timeout(std::chrono::milliseconds timeout);

/// An init_method in its parts.
struct InitMethod {
  enum class Scheme { env, tcp, file } scheme = Scheme::env;
  std::string host;
  std::uint16_t port = 0;
  std::string path;
  std::optional<int> rank;
  std::optional<int> world_size;
};

/// Throws ddp::Error of kind usage that names what is wrong.
InitMethod parse_init_method(const std::string& text);

}  // namespace ddp::internal
