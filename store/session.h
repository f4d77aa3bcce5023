// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/error.h"
#include "store/outbox.h"
#include "store/store.h"
#include "store/wire.h"

namespace ddprun::store {

/// Limits of the store. A client that exceeds them is disconnected.
struct Limits {
  WireLimits wire;                           ///< one request
  std::size_t unread_bytes = 64 << 20;       ///< replies that one client has not read
  std::size_t busy_bytes = 256 << 10;        ///< with so many unread its next request has to wait
  std::size_t store_bytes = 1 << 30;         ///< keys, values, queues and waits
  std::size_t unfinished_bytes = 256 << 20;  ///< large requests of all clients still arriving
  std::size_t silent_clients = 16'384;       ///< connections that never sent anything
};

/// One client of the store: bytes in, bytes out. Pure: the caller reads, sends, and passes on the
/// events that a request has for other clients.
class Session {
 public:
  enum class Step {
    ran,     ///< one request; there may be more
    idle,    ///< all that was fed has been used or kept: feed more
    busy,    ///< too much is unread: step again when the outbox is empty
    broken,  ///< error() has the reason: send the outbox, then close
  };

  /// `store` and `limits` outlive the session.
  Session(Store& store, ClientId self, const Limits& limits)
      : store_(store), limits_(limits), self_(self), parser_(limits.wire) {}

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Takes its wait and its watches out of the store.
  ~Session() { store_.forget(self_); }

  /// More bytes from the client, which must stay valid until step() returns something else than
  /// `ran`. Not while busy.
  void feed(std::string_view bytes);

  /// Runs the next request, if it has come as a whole. Its reply is in the outbox; take the store's
  /// events for other clients before the next step.
  Step step();

  /// The client's wait has ended.
  void wake();

  /// A key it watches has changed. False: too much is unread; close.
  bool send_change(const WatchEvent& event);

  Outbox& outbox() { return outbox_; }
  const Error& error() const { return error_; }

  /// Whether the client ever sent a whole request: others may not be clients of a store at all.
  bool known() const { return known_; }

  /// Memory held for a request that has not arrived as a whole.
  std::size_t unfinished_bytes() const { return kept_.capacity(); }

 private:
  void keep();
  Step broken(Error error);
  Result<> run(const Request& request);
  Result<> run_on_key(const Request& request);
  Result<> run_on_list(const Request& request);
  Result<> run_on_queue(const Request& request);
  Result<> reply_values(const Request& request);
  Result<> reply_keys();
  Result<> reply_stop(const Result<bool>& at_once);
  Result<> room_for(std::size_t reply) const;
  void reply_byte(std::uint8_t byte);
  void reply_integer(std::int64_t number);
  void reply_value(const Value& value);
  void reply_bytes(std::string_view bytes);

  Store& store_;
  const Limits& limits_;
  ClientId self_;
  RequestParser parser_;
  Outbox outbox_;
  std::string kept_;       // unused bytes of earlier pieces
  std::string_view rest_;  // unused bytes: in kept_, or in the piece that was just fed
  bool waits_ = false;
  bool known_ = false;
  Error error_{};
};

}  // namespace ddprun::store
