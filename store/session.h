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

/// What the store may cost. Whoever exceeds it is disconnected.
struct Limits {
  WireLimits wire;                           ///< one request
  std::size_t unread_bytes = 64 << 20;       ///< replies that one client has not read
  std::size_t busy_bytes = 256 << 10;        ///< with so many unread its next request has to wait
  std::size_t store_bytes = 1 << 30;         ///< keys, values, queues and waits
  std::size_t unfinished_bytes = 256 << 20;  ///< large requests of all clients still arriving
  std::size_t silent_clients = 16'384;       ///< connections that never sent anything
};

/// One client of the store: bytes in, bytes out. Pure: somebody else reads, sends, and brings the
/// news that a request had for other clients.
class Session {
 public:
  enum class Step {
    ran,     ///< one request; there may be more
    idle,    ///< all that was fed has been used or kept: feed more
    busy,    ///< too much is unread: step again when the outbox is empty
    broken,  ///< error() says why: send the outbox, then close
  };

  /// `store` and `limits` outlive the session.
  Session(Store& store, ClientId self, const Limits& limits)
      : store_(store), limits_(limits), self_(self), parser_(limits.wire) {}

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Takes its wait and its watches out of the store.
  ~Session() { store_.forget(self_); }

  /// More bytes from the client. They have to stay until step() returns something else than `ran`.
  /// Not while busy.
  void feed(std::string_view bytes);

  /// Runs the next request, if it is there as a whole. Its reply is in the outbox; see the store
  /// for news to others before the next step.
  Step step();

  /// What the client waited for has come.
  void wake();

  /// A key it watches has changed. False: it does not read; close.
  bool tell(const WatchEvent& event);

  Outbox& outbox() { return outbox_; }
  const Error& error() const { return error_; }

  /// Whether the client ever sent a whole request: others may be strays.
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
  std::string kept_;       // what of earlier pieces is not used up
  std::string_view rest_;  // not used up: in kept_, or in what was just fed
  bool waits_ = false;
  bool known_ = false;
  Error error_{};
};

}  // namespace ddprun::store
