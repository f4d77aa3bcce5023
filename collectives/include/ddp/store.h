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

/// Keys and values that the processes of a job share: how they find each other, count and hand over
/// small things before, and beside, the collectives. The calls and what they mean are those of
/// torch.distributed's stores
/// (https://docs.pytorch.org/docs/stable/distributed.html#distributed-key-value-store).
///
/// TcpStore is for processes that reach one host and port, FileStore for processes that share a
/// file system, HashStore for the threads of one process; PrefixStore gives any of them a room of
/// its own. To write another, implement the private functions.
///
/// Keys and values are bytes. A key has at most 8 KiB, a value at most 8 MiB, a list at most
/// 131,072 keys: what PyTorch's server takes
/// (torch/csrc/distributed/c10d/TCPStoreLibUvBackend.cpp).
///
/// A call that waits takes a timeout: none is the store's own, timeout(); 0 looks once. When it is
/// over, Error of kind timed_out names the keys that did not come, and the store is as good as
/// before. Errors of every call: usage (more than the above, a timeout below 0), unreachable (the
/// store is lost; every later call tells it again), system.
///
/// Thread: any, any number of calls at once; one that waits holds up no other. What a call has
/// stored, every call that begins after it returned sees, in every process.
class DDP_EXPORT Store {
 public:
  /// Of one call; none: the store's own.
  using Timeout = std::optional<std::chrono::milliseconds>;

  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store();

  /// Replaces the value, or creates the key, which ends the waits for it.
  void set(std::string_view key, std::string_view value);

  /// The value, once the key exists.
  std::string get(std::string_view key, Timeout timeout = {});

  /// Adds to a counter, whose value is its decimal text; a missing one counts as 0. Returns the
  /// sum. Errors: also when the value does not begin with a number; a TcpStore is lost then, since
  /// its server's only answer is to hang up.
  std::int64_t add(std::string_view key, std::int64_t amount);

  /// Returns when every key exists. One that is deleted again while others are missing may count.
  void wait(const std::vector<std::string>& keys, Timeout timeout = {});

  /// Whether all keys exist now.
  bool check(const std::vector<std::string>& keys);

  /// Stores `desired` if the value is `expected`; a missing key counts as empty. Returns the value
  /// the key has then, or `expected` if the key is missing all the same.
  std::string compare_set(std::string_view key, std::string_view expected,
                          std::string_view desired);

  /// Whether there was such a key. Who waits for it waits on.
  bool delete_key(std::string_view key);

  /// How many keys the whole store has, those of other prefixes and the store's own included.
  std::int64_t num_keys();

  /// Puts `suffix` at the end of the value, or creates the key with it.
  void append(std::string_view key, std::string_view suffix);

  /// The values in the order of `keys`, once all of them exist.
  std::vector<std::string> multi_get(const std::vector<std::string>& keys, Timeout timeout = {});

  /// As set() of each key and value, in order, in one go.
  void multi_set(const std::vector<std::pair<std::string, std::string>>& entries);

  /// How long get, wait and multi_get wait when they are not told: 5 minutes at first, as in
  /// PyTorch (Store::kDefaultTimeout).
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }

  /// Errors: usage (`timeout` is below 0).
  void set_timeout(std::chrono::milliseconds timeout);

  /// Which store it is, for error messages: "store at 10.0.0.1:29500".
  virtual std::string name() const = 0;

 protected:
  /// When a call gives up.
  using Deadline = std::chrono::steady_clock::time_point;

  Store() = default;

 private:
  friend class PrefixStore;

  // Called with arguments that were checked, by several threads at once. Throw ddp::Error.
  virtual void do_set(std::string_view key, std::string_view value) = 0;
  virtual std::int64_t do_add(std::string_view key, std::int64_t amount) = 0;
  virtual bool do_check(const std::vector<std::string>& keys) = 0;
  virtual std::string do_compare_set(std::string_view key, std::string_view expected,
                                     std::string_view desired) = 0;
  virtual bool do_delete_key(std::string_view key) = 0;
  virtual std::int64_t do_num_keys() = 0;
  virtual void do_append(std::string_view key, std::string_view suffix) = 0;
  virtual void do_multi_set(const std::vector<std::pair<std::string, std::string>>& entries) = 0;
  /// False: the deadline passed before all of them existed.
  virtual bool do_wait(const std::vector<std::string>& keys, Deadline deadline) = 0;
  /// Values of keys that existed a moment ago; empty for one that was deleted meanwhile.
  virtual std::vector<std::string> do_multi_get(const std::vector<std::string>& keys) = 0;

  std::atomic<std::chrono::milliseconds> timeout_{std::chrono::minutes(5)};
};

/// Another store with "PREFIX/" before every key: several users of one store in rooms of their own.
/// Nested as PyTorch's are: PrefixStore("in", PrefixStore("out", store)) keeps "k" as "out/in/k".
class DDP_EXPORT PrefixStore final : public Store {
 public:
  /// `store` is shared. The timeout is the one `store` has now.
  PrefixStore(std::string prefix, std::shared_ptr<Store> store);
  ~PrefixStore() override;

  /// The store it was made of.
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

/// A store in the memory of this process, for its threads; PyTorch's HashStore. Holds at most 1 GiB
/// (Error of kind system beyond).
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
