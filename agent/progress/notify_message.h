// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

// Messages of workers by the protocol of sd_notify(3). Pure.

namespace ddprun::agent {

struct NotifyMessage {
  bool is_heartbeat = false;  ///< WATCHDOG=1
  std::string status;         ///< STATUS=..., one printable line, cut; empty: none
};

/// Parses lines of NAME=value; ignores those that ddprun does not use.
NotifyMessage parse_notify_message(std::string_view text);

}  // namespace ddprun::agent
