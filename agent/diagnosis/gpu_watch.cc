// SPDX-License-Identifier: Apache-2.0
#include "agent/diagnosis/gpu_watch.h"

#include <utility>

#include <boost/asio/steady_timer.hpp>

namespace ddprun::agent {

/// Calls `done` once: with the answer, or when the limit is over.
void GpuWatch::look(Done done) {
  if (devices_.empty() || is_stuck_) return done({});
  auto limit = std::make_shared<boost::asio::steady_timer>(executor_, limit_);
  auto once = std::make_shared<Done>(std::move(done));
  const auto conclude = [limit, once](const Uses& uses) {
    limit->cancel();
    if (const Done call = std::exchange(*once, nullptr)) call(uses);
  };
  limit->async_wait(
      [this, conclude, alive = std::weak_ptr(alive_)](boost::system::error_code cancelled) {
        if (cancelled || alive.expired()) return;
        is_stuck_ = true;
        conclude({});
      });
  waiting_.push_back(conclude);
  if (!std::exchange(reading_, true)) begin();
}

void GpuWatch::begin() {
  jobs_.run([reader = reader_, devices = devices_] { return reader->read(devices); },
            [this](const Uses& uses) {
              reading_ = is_stuck_ = false;
              for (const Done& done : std::exchange(waiting_, {})) done(uses);
            });
}

}  // namespace ddprun::agent
