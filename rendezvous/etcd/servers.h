// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rendezvous/etcd/tls.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::rendezvous::etcd {

/// An etcd, and ddprun's user there.
struct Servers {
  std::vector<Endpoint> servers;  ///< at least one; any of them answers
  std::string user;               ///< empty: etcd needs none
  std::string password;
  std::shared_ptr<const TlsClient> tls{};  ///< nullptr: nothing is encrypted

  /// "etcd1:2379,etcd2:2379".
  std::string text() const {
    std::string list;
    for (const Endpoint& server : servers) list += (list.empty() ? "" : ",") + server.text();
    return list;
  }
};

}  // namespace ddprun::rendezvous::etcd
