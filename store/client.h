// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/fd.h"
#include "store/wire.h"

namespace ddprun::store {

/// A worker's side of the store: c10d's TCPStore protocol over one blocking connection. Works with
/// ddprun's store, with torchrun's, and with PyTorch's own from 2.5 on.
///
/// Keys and values are bytes. Keys reach the server unchanged. PyTorch's clients put a '/' before
/// theirs, so they see only keys that start with one.
///
/// Errors: timed_out, unreachable (connection lost or refused), protocol (an unexpected reply);
/// each names host:port. The protocol has no request numbers, so after an error other than a
/// timed-out wait the connection cannot be trusted: every later call returns the same error.
/// Thread: one call at a time. Moves, never copies. The destructor closes the connection; the keys
/// stay.
class Client {
 public:
  /// Connects and greets the server. Retries while it is not listening yet, until `limit` or until
  /// `is_pointless`, which it calls after every attempt. `reply_limit` bounds every later reply
  /// that does not wait for other workers. Errors: also usage (host does not resolve), system (no
  /// descriptor left; not retried).
  static Result<Client> connect(const std::string& host, std::uint16_t port,
                                std::chrono::milliseconds limit,
                                std::chrono::milliseconds reply_limit,
                                const std::function<bool()>& is_pointless = {});

  // The protocol has no reply to these three, so each sends a ping with its request, and returns
  // when the server has processed both.

  /// Replaces the value and wakes clients that wait for the key.
  Result<> set(std::string_view key, std::string_view value);

  /// Appends `suffix` to the value, or creates the key with it, and wakes clients that wait for the
  /// key.
  Result<> append(std::string_view key, std::string_view suffix);

  /// Does set() for each entry, in order, in one request.
  Result<> multi_set(const std::vector<std::pair<std::string, std::string>>& entries);

  /// The value, once the key exists. Errors: timed_out after `limit`; the client stays usable.
  Result<std::string> get(std::string_view key, std::chrono::milliseconds limit);

  /// The values of keys that exist, in their order: 64 MiB at most. If a key does not exist, a
  /// server may hang up, or send an empty value.
  Result<std::vector<std::string>> multi_get(const std::vector<std::string>& keys);

  /// Returns once all keys exist. Errors: timed_out after `limit`; the client stays usable.
  Result<> wait(const std::vector<std::string>& keys, std::chrono::milliseconds limit);

  /// Adds to a counter that starts at 0; returns the new value.
  Result<std::int64_t> add(std::string_view key, std::int64_t delta);

  /// Whether all keys exist now.
  Result<bool> check(const std::vector<std::string>& keys);

  /// Stores `desired` if the value is `expected` (empty: if the key is missing); returns the
  /// resulting value on the server.
  Result<std::string> compare_set(std::string_view key, std::string_view expected,
                                  std::string_view desired);

  /// Whether the key existed.
  Result<bool> delete_key(std::string_view key);

  /// How many keys the server has, including PyTorch's own "init/".
  Result<std::int64_t> num_keys();

  /// The error that every later call returns; nullopt while the connection can be trusted.
  const std::optional<Error>& lost() const { return broken_; }

  /// The numeric address of this host from which it reaches the server.
  const std::string& local_address() const { return local_address_; }

  /// The connection, which the client keeps.
  int socket() const { return socket_.get(); }

  /// "host:port", as errors name the server.
  const std::string& server() const { return server_; }

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  Client(Fd socket, std::string server, std::chrono::milliseconds reply_limit);

  Result<> greet(Deadline deadline);
  Result<bool> wait_ended(Deadline deadline);
  Result<> cancel_wait();

  Result<> send(std::string_view bytes, Deadline deadline);
  Result<> send_and_confirm(std::string request);
  Result<> receive_echo(std::uint32_t nonce, Deadline deadline);
  Result<> receive(char* into, std::size_t size, Deadline deadline);
  Result<std::uint8_t> receive_byte(Deadline deadline);
  Result<std::int64_t> receive_integer(Deadline deadline);
  Result<std::string> receive_string(Deadline deadline, std::int64_t limit);

  Deadline reply_deadline() const { return std::chrono::steady_clock::now() + reply_limit_; }
  Error broken(Errc code, const std::string& what);
  Error broken_by(int error);

  Fd socket_;
  std::string server_;
  std::string local_address_;
  std::chrono::milliseconds reply_limit_;
  std::optional<Error> broken_;  ///< set once the connection cannot be trusted any more
};

}  // namespace ddprun::store
