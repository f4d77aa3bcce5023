// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ddp/error.h"
#include "ddp/export.h"

namespace ddp {

/// Keys and values that the processes of a job share, to find each other, to count and to exchange
/// small data. The calls have the names and meaning of torch.distributed's stores
/// (https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store).
///
/// TcpStore is for processes that can connect to one host and port, FileStore for processes that
/// share a file system, HashStore for the threads of one process. PrefixStore is a namespace within
/// another store. To write a store, implement the private functions.
///
/// Keys and values are bytes. A key has at most 8 KiB, a value at most 8 MiB, a list at most
/// 131,072 keys: the limits of PyTorch's server
/// (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp).
///
/// A call that waits takes a timeout: by default the store's timeout(); 0 checks once. When it
/// expires, the call throws Error of kind timed_out, which names the missing keys, and the store
/// stays usable. Errors of every call: usage (a limit is exceeded, a timeout is below 0),
/// unreachable (the store is lost; every later call throws the same), system.
///
/// Thread: any, any number of calls at once; a call that waits does not block others. A value that
/// a call has stored is visible to every call that begins after it returned, in every process.
class DDP_EXPORT Store {
 public:
  /// The timeout of one call. Default: the store's.
  using Timeout = std::optional<std::chrono::milliseconds>;

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store();

  /// Sets the value; creates the key if it is missing, which ends the waits for it.
  void set(std::string_view key, std::string_view value);

  /// Waits for the key, and returns its value.
  std::string get(std::string_view key, Timeout timeout = {});

  /// Adds to a counter, stored as decimal text; a missing key counts as 0. Returns the sum. Errors:
  /// also if the value does not begin with a number; a TcpStore is lost then, since its server
  /// closes the connection.
  std::int64_t add(std::string_view key, std::int64_t amount);

  /// Waits until every key exists. A key that is deleted while others are missing may count.
  void wait(const std::vector<std::string>& keys, Timeout timeout = {});

  /// Whether all keys exist now.
  bool check(const std::vector<std::string>& keys);

  /// Sets the value to `desired` if it is `expected`; a missing key counts as empty. Returns the
  /// value afterwards, or `expected` if the key is still missing.
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired);

  /// Deletes a key and returns whether it existed. Calls that wait for it continue to wait.
  bool delete_key(std::string_view key);

  /// The number of keys in the whole store, including other prefixes and the store's internal keys.
  std::int64_t num_keys();

  /// Appends `suffix` to the value; a missing key counts as empty.
  void append(std::string_view key, std::string_view suffix);

  /// Waits until all keys exist, and returns their values in the order of `keys`.
  std::vector<std::string> multi_get(const std::vector<std::string>& keys, Timeout timeout = {});

  /// set() for each key and value, in order, in one request.
  void multi_set(const std::vector<std::pair<std::string, std::string>>& entries);

  /// The default timeout of get, wait and multi_get. Initially 5 minutes, as in PyTorch
  /// (Store::kDefaultTimeout).
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }

  /// Errors: usage (`timeout` is below 0).
  void set_timeout(std::chrono::milliseconds timeout);

  /// The name of the store in error messages: "store at 10.0.0.1:29500".
  virtual std::string name() const = 0;

 protected:
  /// When a call times out.
  using Deadline = std::chrono::steady_clock::time_point;

  Store() = default;

 private:
  friend class PrefixStore;

  // Several threads call these at once, with checked arguments. They throw ddp::Error.
  virtual void do_set(std::string_view key, std::string_view value) = 0;
  virtual std::int64_t do_add(std::string_view key, std::int64_t amount) = 0;
  virtual bool do_check(const std::vector<std::string>& keys) = 0;
  virtual std::string do_compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) = 0;
  virtual bool do_delete_key(std::string_view key) = 0;
  virtual std::int64_t do_num_keys() = 0;
  virtual void do_append(std::string_view key, std::string_view suffix) = 0;
  virtual void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) = 0;
  /// Returns false if the deadline passed before all keys existed.
  virtual bool do_wait(const std::vector<std::string>& keys, Deadline deadline) = 0;
  /// Returns the values of keys that existed a moment ago; empty for a key deleted since.
  virtual std::vector<std::string> do_multi_get(const std::vector<std::string>& keys) = 0;

  std::atomic<std::chrono::milliseconds> timeout_{std::chrono::minutes(5)};
};

/// A namespace in another store: puts "PREFIX/" in front of every key. Nests as in PyTorch:
/// PrefixStore("in", PrefixStore("out", store)) stores "k" as "out/in/k".
class DDP_EXPORT PrefixStore final : public Store {
 public:
  /// `store` is shared. The timeout is initially that of `store`.
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  ~PrefixStore() override;

  /// The store that was passed to the constructor.
  const std::shared_ptr<Store>& underlying() const noexcept { return store_; }
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

  std::string full(std::string_view key) const;
  std::vector<std::string> full(const std::vector<std::string>& keys) const;

  const std::string prefix_;
  const std::shared_ptr<Store> store_;
};

/// A store in the memory of this process, for its threads; PyTorch's HashStore. Holds at most 1
/// GiB; beyond that calls throw Error of kind system.
class DDP_EXPORT HashStore final : public Store {
 public:
  HashStore();
  ~HashStore() override;

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
