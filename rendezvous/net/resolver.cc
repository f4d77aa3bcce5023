// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/net/resolver.h"

#include "rendezvous/net/addresses.h"

namespace ddprun::rendezvous {

void Resolver::resolve(const Endpoint& endpoint, Hook resolved) {
  look_up_ = std::make_unique<AsyncJobs>(executor_);
  look_up_->run([endpoint] { return rendezvous::resolve(endpoint); }, std::move(resolved));
}

}  // namespace ddprun::rendezvous
