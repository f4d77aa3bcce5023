// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "collectives/backends/cpu/connections.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/shm/heap.h"
#include "collectives/backends/shm/other_memory.h"
#include "collectives/call/async_call.h"
#include "collectives/call/task.h"

namespace ddp::internal {

class CpuMessages;

/// How threads that wait for messages find the CpuMessages, until it is destroyed.
struct MessageRoom {
  std::shared_mutex mutex;
  CpuMessages* messages = nullptr;
};

/// A call that was begun: complete when all its messages are. A thread that waits for it moves the
/// messages in the meantime.
class MessageCall : public Completion {
 public:
  explicit MessageCall(std::shared_ptr<MessageRoom> room) : room_(std::move(room)) {}
  void wait() override;
  bool completes_until(std::chrono::steady_clock::time_point deadline) override;

  std::size_t open = 0;  ///< messages that are not complete

 private:
  void move_messages(std::chrono::steady_clock::time_point deadline);
  std::shared_ptr<MessageRoom> room_;
};

/// A message that this rank sends or receives, until it is complete.
struct Message {
  Transfer transfer;
  std::shared_ptr<MessageCall> call;
  std::chrono::steady_clock::time_point last_progress;  ///< when it was begun or last moved data
  std::chrono::milliseconds timeout{};                  ///< the longest time without progress
  std::size_t moved = 0;                                ///< bytes of a long message
  MemoryPlace place = {};  ///< set if the receiver may read the data there

  std::size_t bytes() const;
  char* data() const { return static_cast<char*>(transfer.data); }
  auto deadline() const { return last_progress + timeout; }
};

using Messages = std::pmr::list<Message>;
using MessageAt = Messages::iterator;

/// "send float32[100] to rank 1, tag 5"; `peer` is the other rank as messages name it.
std::string describe(const Transfer& transfer, int peer);

/// The messages between this rank and one other. Each of the two sends frames on a connection of
/// its own.
///
/// Short messages are sent eagerly, with their data. If no receive has been posted for one, the
/// receiver keeps it (MPI: unexpected messages); the sender's credit bounds their size. Any other
/// message's data is sent when the receiver says clear_to_send, and read straight into its buffer.
///
/// Ranks that have a ring try to use one copy: the sender of a long message says where its data is,
/// and the receiver reads it there. If the kernel refuses that, or the data cannot be read, the
/// receiver says clear_to_send instead.
///
/// The n-th message with a tag goes to the n-th receive with that tag. Messages with different tags
/// do not wait for each other.
///
/// Thread: any, under the lock of `run_locked`; events, too.
class CpuPeer {
 public:
  struct Events {
    std::function<void(MessageAt message)> done;

    /// The peer's message, described as `theirs`, does not fit this one.
    std::function<void(MessageAt message, const std::string& theirs)> mismatched;

    /// The peer has left without a message for this one; `more` says what else it has sent.
    std::function<void(MessageAt message, const std::string& more)> left;

    /// The peer gets everything that this rank has sent, up to its bye.
    std::function<void()> said_bye;

    /// The connection in a direction ended, or cannot be made. Called once.
    std::function<void()> ended;

    /// The peer's connection ended; all open messages with the peer fail.
    std::function<void(const std::string& reason)> lost;

    /// The peer sent more messages without a receive than are kept; `tag` is the last one's.
    std::function<void(std::size_t kept, std::int32_t tag)> overflowed;

    /// A message came for which no receive waits, or the peer's bye.
    std::function<void()> changed;

    /// read_memory() has something to do.
    std::function<void()> readable;

    /// The two ranks may have become ready for rings: see CpuRings::join().
    std::function<void()> may_use_rings;
  };

  /// `to` is where the peer listens. `first` is the first frame for it; its token also marks the
  /// peer's memory. `own` is the mark of this process. Messages name this rank `own_rank`. Messages
  /// under way take `memory`.
  CpuPeer(boost::asio::io_context& context, const RunLocked& run_locked,
          boost::asio::ip::tcp::endpoint to, const Frame& first, const MemoryMark& own,
          int own_rank, std::pmr::memory_resource& memory, Events events);

  /// Connects, so that the peer's end shows, also while this rank only receives.
  void open();
  /// Whether the connection in a direction has ended, or cannot be made.
  bool has_ended() const { return send_ended_ || is_ending_; }

  void begin(MessageAt message);

  /// Sends a short message through the ring without a Message; false if it needs begin().
  bool send_now(const Transfer& transfer);

  /// Receives the next message in the peer's ring without a Message. Returns `late` if it
  /// has not come yet, `other` if something else has come or was expected before.
  enum class Next { received, late, other };
  Next receive_now(const Transfer& transfer);

  /// Notifies the peer that no more messages follow, if there was ever one between the two.
  void send_bye();

  /// Whether the bye is written, or the peer is gone, or never exchanged a message with this rank.
  bool has_sent_all() const {
    return said_bye_ || send_ended_ || lost_ || (!from_ && !connection_.is_open());
  }

  /// Events of the connection on which the peer sends: it was accepted; a frame or data came (as
  /// FrameReader::Events); it ended.
  void on_connected(std::shared_ptr<RecvConnection> from);
  bool is_connected() const { return from_ != nullptr; }
  bool on_frame(const Frame& frame, const char* data);
  std::optional<char*> destination(std::uint64_t number, std::size_t bytes);
  void on_data(std::uint64_t number, std::size_t bytes);
  void on_closed(const std::string& reason);

  /// Whether a message with this tag waits for a receive.
  bool has_unexpected(std::int32_t tag) const { return unexpected_.contains(tag); }

  /// Whether the peer sends no more messages; why, unless it has left.
  bool has_left() const { return received_bye_; }
  const std::optional<std::string>& lost() const { return lost_; }

  /// Names the messages from the peer that were not received: "has sent tag 5".
  std::string describe_unexpected() const;

  /// Whether the peer could write to a ring that this rank reads. Only ranks that exchange messages
  /// need one: it takes memory.
  bool needs_ring() const { return is_used_ && from_ && !from_->is_closed() && !from_->has_ring(); }
  /// Notifies the peer that this rank reads its ring and may read its memory, also in `heap`.
  void offer_ring(ShmRing ring, std::shared_ptr<const ShmHeap> heap);

  /// Whether the peer reads a ring that this rank does not write to yet.
  bool is_offered_ring() const { return is_offered_ && !connection_.has_ring(); }
  /// Sends through a ring from now on, once everything sent before is written.
  void use_ring(ShmRing ring) { connection_.use_ring(std::move(ring)); }

  /// While `awake`, these are called often: they read what the peer has written to its ring (and
  /// return whether there was anything), and write what this rank's has room for.
  void set_awake(bool awake);
  bool read_ring() { return from_ && from_->read_ring(); }
  void go_on() { connection_.go_on(); }

  /// Reads one turn's bytes of a long message in the peer's memory; returns whether there was one.
  bool read_memory();
  bool is_reading() const { return !readings_.empty(); }
  /// Whether the peer still has to take a long message.
  bool is_awaited() const { return !announced_.empty(); }

  void close() noexcept {
    connection_.close();
    silence_.cancel();
  }

 private:
  /// A message for which no receive has been posted.
  struct Unexpected {
    Frame frame;
    std::pmr::vector<char> data;
  };

  /// A long message that this rank reads in the peer's memory.
  struct Reading {
    std::uint64_t number;
    MessageAt message;
    MemoryPlace place;
  };

  void begin_use();
  void on_send_ended(const std::string& reason);
  void count_silence(int ticks);
  bool is_short(const Transfer& transfer) const;
  Frame frame_of(const Transfer& transfer) const;
  void send(MessageAt message);
  bool is_read_sooner(const Message& message) const;
  void receive(MessageAt message);
  void match(MessageAt message, const Frame& frame, const char* data);
  bool on_message(const Frame& frame, const char* data);
  bool on_clear_to_send(std::uint64_t number);
  bool on_taken(std::uint64_t number, std::size_t bytes);
  void clear_to_send(std::uint64_t number, MessageAt message);
  bool advance(MessageAt message, std::size_t bytes);
  bool read_piece(const Reading& reading, std::span<char> to) const;
  void return_credit(std::size_t credit);
  void fail_unmatched_after_bye();

  boost::asio::ip::tcp::endpoint to_;
  Frame first_;
  const MemoryMark& own_;
  int own_rank_;
  Events events_;
  const RunLocked run_locked_;
  SendConnection connection_;
  std::shared_ptr<RecvConnection> from_;   // the peer's connection; null until it has connected
  bool is_used_ = false;                   // there are messages
  bool is_offered_ = false;                // the peer reads a ring of ours
  std::optional<std::string> send_ended_;  // the reason
  boost::asio::steady_timer silence_;      // runs after that
  bool was_heard_ = false;  // the peer's connection had something since the last tick
  bool sends_bye_ = false;
  bool said_bye_ = false;  // it is written
  bool received_bye_ = false;
  bool is_ending_ = false;           // the peer's last data is being read
  std::optional<std::string> lost_;  // the reason

  std::uint64_t sent_ = 0;                             // messages
  std::size_t credit_;                                 // credit left for short messages to the peer
  std::pmr::map<std::uint64_t, MessageAt> announced_;  // ours that wait for clear_to_send or taken

  std::uint64_t received_ = 0;  // messages
  // By tag, each tag in the order of arrival. A tag is never in both.
  std::pmr::multimap<std::int32_t, Unexpected> unexpected_;
  std::pmr::multimap<std::int32_t, MessageAt> posted_;  // receives
  std::size_t unexpected_cost_ = 0;                     // credit of unexpected messages
  std::size_t credit_to_return_ = 0;
  std::pmr::map<std::uint64_t, MessageAt>
      incoming_;               // the peer's messages that are cleared to send
  bool reads_memory_ = false;  // until the kernel refuses
  std::shared_ptr<const ShmHeap> heap_;
  std::deque<Reading> readings_;
};

}  // namespace ddp::internal
