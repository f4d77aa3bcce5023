// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "store/session.h"
#include "store/store.h"

namespace ddprun::store {

/// One client's session.
struct ClientSession {
  ClientId client;
  const Session* session;
};

/// The clients to disconnect where all together hold more than `most` bytes: those with most, until
/// three quarters are left. A value that clients hold and that the store no longer has counts for
/// each in equal parts; one that the store has costs nothing more. Pure.
std::vector<ClientId> clients_beyond(const std::vector<ClientSession>& sessions, std::size_t most);

}  // namespace ddprun::store
