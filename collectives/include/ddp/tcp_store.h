// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ddp/store.h"

namespace ddp {

/// How a TcpStore is created; the names and defaults of torch.distributed.TCPStore.
struct TcpStoreOptions {
  /// Whether this process serves the store, in a thread that blocks all signals.
  bool is_master = false;
  /// The number of TcpStores that the job makes, the master's included. The master's constructor
  /// waits for them. Default: stores are neither counted nor waited for.
  std::optional<int> world_size = {};
  /// The store's timeout(), and that of the constructor, which connects to the master or waits for
  /// the other stores. Above 0.
  std::chrono::milliseconds timeout = std::chrono::minutes(5);
};

/// A store that one process serves over TCP, with the protocol of PyTorch 2.5 and later: the server
/// may be the agent of ddprun or torchrun, another TcpStore, or PyTorch's TCPStore. The clients may
/// be PyTorch's, also those of 1.13 and 2.0. Key "k" is PyTorch's key "k".
///
/// The server and its contents end with the master's store. There is no authentication: every
/// process that can connect to the port may read and write. The server listens on loopback only if
/// `host` is loopback, else on every address of the host.
///
/// A process has one connection for each call that is under way at once, and keeps them open.
class DDP_EXPORT TcpStore final : public Store {
 public:
  /// Connects to `host`, a name or a numeric address, at `port`. With is_master, first starts the
  /// server there; port 0 then means any free port.
  /// Errors: usage (`host` does not resolve, or options are wrong), timed_out (no server answers,
  /// or fewer than world_size stores were made), system (the server cannot listen on the port).
  TcpStore(const std::string& host, std::uint16_t port, const TcpStoreOptions& options = {});
  ~TcpStore() override;

  /// The port of the server.
  std::uint16_t port() const noexcept;

  /// The numeric address of this host on the connection to the server.
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
