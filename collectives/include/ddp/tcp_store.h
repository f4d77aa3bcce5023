// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ddp/store.h"

namespace ddp {

/// How a TcpStore begins; the names and defaults of torch.distributed.TCPStore.
struct TcpStoreOptions {
  /// Serve the store in this process, in a thread that takes no signals.
  bool is_master = false;
  /// How many stores the job makes, the master's included. The master's constructor returns when so
  /// many have been made. None: nobody is counted, and nobody waited for.
  std::optional<int> world_size = {};
  /// The store's timeout(), and how long the constructor tries to reach the master, or waits for
  /// the others. Above 0.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// A store that one process serves over TCP, with the protocol of PyTorch 2.5 and later: the server
/// may be ddprun's or torchrun's agent, another TcpStore, or PyTorch's TCPStore, and PyTorch's
/// ranks may be clients of ours, those of 1.13 and 2.0 too. Key "k" is PyTorch's key "k".
///
/// The server ends with the master's store, and what is kept with it. It has no authentication: who
/// reaches the port may read and write. It listens on loopback alone when `host` is loopback, else
/// on every address of the host.
///
/// A process has one connection for each call that is under way at once, and keeps them.
class DDP_EXPORT TcpStore final : public Store {
 public:
  /// Connects to `host`, a name or a numeric address, at `port`. With is_master, serves there
  /// first; port 0 then is a free one.
  /// Errors: usage (`host` does not resolve, or options are wrong), timed_out (nobody serves there;
  /// or fewer than world_size stores were made), system (the port cannot be had).
  TcpStore(const std::string& host, std::uint16_t port, const TcpStoreOptions& options = {});
  ~TcpStore() override;

  /// Where the store is served.
  std::uint16_t port() const noexcept;

  /// The numeric address of this host that reaches the server.
  const std::string& local_address() const noexcept;

  std::string name() const override;

 private:
  void do_set(std::string_view key, std::string_view value) override;
  std::int64_t do_add(std::string_view key, std::int64_t amount) override;
  bool do_check(const std::vector<std::string>& keys) override;
  std::string do_compare_set(std::string_view key, std::string_view expected,
                             std::string_view desired) override;
  bool do_delete_key(std::string_view key) override;
  std::int64_t do_num_keys() override;
  void do_append(std::string_view key, std::string_view suffix) override;
  void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) override;
  bool do_wait(const std::vector<std::string>& keys, Deadline deadline) override;
  std::vector<std::string> do_multi_get(const std::vector<std::string>& keys) override;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ddp
