// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/requeue_spec.h"
#include "base/secret.h"
#include "remote/launch_order.h"
#include "remote/starters.h"

namespace ddprun::remote {

/// An agent to start.
struct HostSpec {
  std::string name;     ///< as the user wrote it
  std::string program;  ///< the path of the starter
  Words starter;        ///< the command that starts `ddprun --remote_agent` there, argv
  Order order;
};

/// A job of several hosts that one command starts. Plain data; only cli/ fills it.
struct Job {
  std::vector<HostSpec> hosts;                     ///< in the order of node ranks
  size_t least = 1;                                ///< the job cannot continue with fewer hosts
  bool has_spares = false;                         ///< there are more hosts than it can use
  bool quit_stops = true;                          ///< SIGQUIT is among the signals that stop a job
  std::chrono::milliseconds start_limit{600'000};  ///< an agent that starts later takes no part
  std::chrono::milliseconds stop_grace{30'000};
  std::optional<RequeueSpec> requeue{};  ///< for cli/
  log::Level log_level = log::Level::info;
  log::Format log_format = log::Format::text;
  std::vector<std::string> origins{};  ///< for messages: where values come from, one per line
  std::string warning{};               ///< for the user; empty: nothing
  std::string instead{};               ///< FailedStart::instead
  /// The agents get it beside their orders, as text; nullptr: none.
  std::shared_ptr<const Secret> secret{};
};

}  // namespace ddprun::remote
