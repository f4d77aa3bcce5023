// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "store/store.h"
#include "store/wire.h"

namespace ddprun::store {

/// Bytes to send to one client. Large values are shared, not copied. Pure.
class Outbox {
 public:
  void append(std::string_view bytes);
  void append(const std::shared_ptr<const std::string>& value);

  /// Appends all of `later`, of which nothing has been sent, and empties it.
  void append(Outbox&& later);

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  /// Memory for the copied bytes, including those of a partly sent piece.
  std::size_t copied() const { return copied_; }

  /// copied(), and the sizes of all values that it holds, even if others hold them, too.
  std::size_t memory() const { return copied_ + held_; }

  /// Visits the values that it holds.
  template <class Visit>
  void for_each_value(Visit visit) const {
    for (std::size_t i = first_; i < pieces_.size(); ++i) {
      if (pieces_[i].value) visit(pieces_[i].value);
    }
  }

  /// The next bytes, in order: fills `pieces` and returns how many there are. The views are valid
  /// until the next change.
  std::size_t pieces(std::string_view* pieces, std::size_t most) const;

  /// Drops the first `count` bytes, which have been sent.
  void drop(std::size_t count);

 private:
  struct Piece {
    std::string bytes;
    std::shared_ptr<const std::string> value;  // instead of bytes

    std::string_view view() const { return value ? *value : bytes; }
  };

  void clear();
  void count(const Piece& piece) { (piece.value ? held_ : copied_) += piece.view().size(); }
  void discount(const Piece& piece) { (piece.value ? held_ : copied_) -= piece.view().size(); }

  std::vector<Piece> pieces_;
  std::size_t first_ = 0;  // pieces before it are sent
  std::size_t sent_ = 0;   // bytes of the first piece
  std::size_t size_ = 0;
  std::size_t copied_ = 0;
  std::size_t held_ = 0;
};

/// Limits of the store. A client that exceeds them is disconnected.
struct Limits {
  WireLimits wire;                      ///< one request
  std::size_t unread_bytes = 64 << 20;  ///< unread news of watched keys of one client
  std::size_t busy_bytes = 256 << 10;   ///< with so many unread bytes, its next request has to wait
  std::size_t store_bytes = 1 << 30;    ///< keys, values, queues and waits
  std::size_t client_bytes = 256 << 20;  ///< unread replies and incomplete requests of all clients
  std::size_t silent_clients = 16'384;   ///< connections that never sent anything
  std::chrono::milliseconds unread_time{300'000};  ///< the time without reading any reply
  std::chrono::milliseconds turn{2};               ///< then the rest of the process gets its turn
};

/// One client of the store: bytes in, bytes out. Pure: the caller reads, sends, and passes on the
/// events that a request causes for other clients.
class Session {
 public:
  enum class Step {
    ran,     ///< one request; there may be more
    idle,    ///< all fed bytes are used or kept: feed more
    busy,    ///< too much is unread, or a long reply has more pieces: step again when the outbox is
             ///< empty
    broken,  ///< error() has the reason: send the outbox, then close
  };

  /// `store` and `limits` outlive the session.
  Session(Store& store, ClientId self, const Limits& limits)
      : store_(store), limits_(limits), self_(self), parser_(limits.wire) {}

  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Removes its wait and its watches from the store.
  ~Session() { store_.forget(self_); }

  /// Takes more bytes from the client. They must stay valid until step() returns something other
  /// than `ran`. Do not call it while busy.
  void feed(std::string_view bytes);

  /// Runs the next request, if it is complete. Puts its reply, or the next piece of a long one,
  /// into the outbox. Take the store's events for other clients before the next step. `pressed`:
  /// the request has to wait while anything is unread.
  Step step(bool pressed = false);

  /// Acts as if step() had returned `busy`; call it after step() has returned `ran`.
  void pause();

  /// Call when the client's wait has ended.
  void wake();

  /// Sends the change of a watched key. False: too much is unread; close.
  bool send_change(const WatchEvent& event);

  Outbox& outbox() { return outbox_; }
  const Error& error() const { return error_; }

  /// Whether the client ever sent a complete request: others may not be clients of a store at all.
  bool known() const { return known_; }

  /// Memory held for requests that are incomplete or have to wait; without what an idle client
  /// keeps for its next request.
  std::size_t unfinished_bytes() const;

  /// Memory for its requests and unread replies. Values count in full, even if others hold them.
  std::size_t memory() const { return unfinished_bytes() + outbox_.memory() + later_.memory(); }

  /// Memory for its requests and for the copied bytes of its replies.
  std::size_t own_memory() const { return unfinished_bytes() + outbox_.copied() + later_.copied(); }

  /// The values that its unread replies hold.
  template <class Visit>
  void for_each_value(Visit visit) const {
    outbox_.for_each_value(visit);
    later_.for_each_value(visit);
  }

 private:
  /// A reply that may be long; it is made piece by piece as the client reads it.
  struct LongReply {
    Request request;        // multi_get
    std::size_t value = 0;  // index of the next value
    std::unique_ptr<Listing> keys;
  };

  void keep();
  Step broken(Error error);
  Result<> run(const Request& request);
  Result<> run_on_key(const Request& request);
  Result<> run_on_list(const Request& request);
  Result<> run_on_queue(const Request& request);
  Result<> reply_stop(const Result<bool>& at_once);
  bool has_room_for(std::size_t reply) const;
  void begin_values(const Request& request);
  void begin_keys();
  Result<> continue_reply(std::size_t most);
  bool reply_value();
  bool reply_key();

  Store& store_;
  const Limits& limits_;
  ClientId self_;
  RequestParser parser_;
  Outbox outbox_;
  std::unique_ptr<LongReply> long_reply_;
  Outbox later_;           // news that came during the long reply
  std::string kept_;       // unused bytes of earlier pieces
  std::string_view rest_;  // unused bytes: in kept_, or in the piece that was just fed
  bool waits_ = false;
  bool known_ = false;
  Error error_{};
};

}  // namespace ddprun::store
