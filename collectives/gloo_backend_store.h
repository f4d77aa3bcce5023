// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <gloo/rendezvous/store.h>

#include "rendezvous/store_client.h"

namespace ddp::internal {

/// Our store as Gloo wants it, for the time it takes to connect the ranks. The first read waits
/// until every rank has written, so that Gloo's own, shorter patience begins when all are there.
///
/// Throws ddp::Error, through Gloo, with the ranks that did not come. Does not own the client.
class GlooStore : public gloo::rendezvous::Store {
 public:
  GlooStore(ddprun::rendezvous::StoreClient& client, std::string prefix, int rank, int size,
            std::chrono::milliseconds timeout);

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override;

 private:
  std::string joined_key(int rank) const;
  void wait_for_everyone();
  std::string missing_ranks();

  ddprun::rendezvous::StoreClient& client_;
  std::string prefix_;
  int rank_;
  int size_;
  std::chrono::milliseconds timeout_;
  bool everyone_is_here_ = false;
};

}  // namespace ddp::internal
