// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/inquiry.h"

#include <utility>

#include "rendezvous/wire/fields.h"

namespace ddprun::rendezvous {

std::string answer_to_send(std::string answer) {
  return answer.size() <= kMaxAnswer && is_plain(answer) ? std::move(answer) : std::string();
}

std::string state_text(NodeState state) {
  switch (state) {
    case NodeState::waiting:
      return "waiting";
    case NodeState::held:
      return "held back";
    case NodeState::running:
      return "running";
    case NodeState::finished:
      return "finished";
    case NodeState::returning:
      return "stopping";
    case NodeState::leaving:
      return "leaving";
  }
  return "";
}

}  // namespace ddprun::rendezvous
