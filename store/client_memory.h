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

/// The clients to disconnect if all together hold more than `most` bytes: those that hold most,
/// until three quarters of `most` are left. If the store no longer has a value, the clients that
/// hold it share its bytes equally. A value in the store costs nothing more. Pure.
std::vector<ClientId> clients_beyond(const std::vector<ClientSession>& sessions, std::size_t most);

}  // namespace ddprun::store
