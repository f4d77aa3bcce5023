// SPDX-License-Identifier: Apache-2.0
#include "agent/progress/notify_message.h"

#include "base/text.h"

namespace ddprun::agent {
namespace {

constexpr size_t kMostOfStatus = 64;
constexpr std::string_view kHeartbeat = "WATCHDOG=1";
constexpr std::string_view kStatus = "STATUS=";

}  // namespace

NotifyMessage parse_notify_message(std::string_view text) {
  NotifyMessage message;
  while (!text.empty()) {
    const std::string_view line = take_piece(text, '\n');
    if (line == kHeartbeat) message.is_heartbeat = true;
    if (!line.starts_with(kStatus)) continue;
    message.status = cut(printable(line.substr(kStatus.size())), kMostOfStatus);
  }
  return message;
}

}  // namespace ddprun::agent
