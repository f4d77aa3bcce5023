// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "collectives/backends/backend.h"
#include "collectives/backends/gloo/frame.h"
#include "collectives/call/async_call.h"

namespace ddp::internal {

/// A begun call, which is over when all its messages are.
struct BegunMessages : Completion {
  std::size_t open = 0;  ///< messages that are not over
};

/// One message of this rank that is not over.
struct Message {
  Transfer transfer;
  std::shared_ptr<BegunMessages> call;
  std::chrono::steady_clock::time_point waits_since;  ///< it was begun, or last moved
  std::size_t moved = 0;                              ///< bytes of its data that came

  std::size_t bytes() const;
  char* data() const { return static_cast<char*>(transfer.data); }
};

using Messages = std::list<Message>;
using MessageAt = Messages::iterator;

/// "send float32[100] to rank 1, tag 5"; `peer` is the other rank as messages name it.
std::string describe(const Transfer& transfer, int peer);

}  // namespace ddp::internal
