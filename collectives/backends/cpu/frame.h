// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace ddp::internal {

/// The header of everything that one rank sends another about messages. Each rank sends on a
/// connection of its own, so a connection has frames of one direction only. Sent as it lies in
/// memory, so it has no padding.
///
/// Short messages are sent eagerly, if the receiver cannot read them where they are. Long messages
/// wait for the receiver (MPI's rendezvous protocol): message, then clear_to_send in the other
/// direction, then data frames. If the message says where its data is, the receiver may read it
/// there instead, and then sends taken.
///
/// Ranks that share memory connect at once, so that each sees the other's end. After their first
/// message they continue in a ring in their memory (ShmRing). Then their connection only has single
/// bytes, which wake the reader or the writer of the ring.
struct Frame {
  enum class Kind : std::uint8_t {
    hello,          ///< the first on a connection: the sender's rank and the token
    message,        ///< begins a message; if it is short, its data follows at once
    clear_to_send,  ///< from the receiver: it is ready for a long message's data
    data,           ///< the next `count` bytes of a long message
    credit,         ///< from the receiver: total bytes of short messages that it has taken
    bye,            ///< the sender sends no more messages and waits for none
    taken,          ///< from the receiver: it has read the next `count` bytes of a long message
    ring,           ///< from the receiver: it reads the sender's ring in their shared memory
    turn,           ///< the last frame on a connection: later ones are in that ring
    calls,          ///< instead of hello: the connection is one of CpuMesh from here on
  };

  Kind kind = Kind::hello;
  std::uint8_t type = 0;       ///< message: a DataType
  std::uint8_t is_short = 0;   ///< message: 1 if its data follows
  std::uint8_t has_place = 0;  ///< message: 1 if it is long and its MemoryPlace follows
  std::int32_t tag = 0;        ///< message: its tag; hello, calls: the sender's rank
  std::uint64_t number = 0;  ///< of the message, from 1 in each direction; hello, calls: the token
  std::uint64_t count = 0;   ///< message: elements; data, taken, credit: bytes

  /// The longest data of a short message, in bytes.
  static constexpr std::size_t kShort = 192 << 10;

  /// Whether the kind exists, and type and count are possible.
  bool is_sound() const;

  /// The bytes that follow a sound frame: a short message's data, or the place of a long one's; 0
  /// for other kinds, data included.
  std::size_t follow() const;
};
static_assert(sizeof(Frame) == 24);

/// Parses the bytes that another process sends on one connection. Checks them: they may be
/// anything. Pure: no socket.
class FrameReader {
 public:
  struct Events {
    /// Gets a frame of any kind but data, with what follows it. Returns false if it is invalid.
    std::function<bool(const Frame& frame, const char* data)> on_frame;

    /// Returns where the next `bytes` of a long message go; nothing if the frame is invalid.
    std::function<std::optional<char*>(std::uint64_t number, std::size_t bytes)> destination;

    /// So many bytes have been written there.
    std::function<void(std::uint64_t number, std::size_t bytes)> on_data;
  };

  explicit FrameReader(Events events) : events_(std::move(events)), staging_(sizeof(Frame)) {}

  /// Returns where to read the next bytes to: first the long message's own memory, so that its data
  /// is not copied, then the reader's. Never empty.
  std::array<std::span<char>, 2> room();

  /// Whether everything taken is parsed.
  bool is_between_frames() const { return left_ == 0 && begin_ == end_; }

  /// So many bytes were read to room(). Returns false if they are invalid: close the connection.
  bool take(std::size_t bytes);

 private:
  bool parse();
  void advance(std::size_t bytes);

  Events events_;
  std::vector<char> staging_;   // holds only one frame until the peer is known, and sends messages
  bool is_identified_ = false;  // a hello was accepted
  std::size_t begin_ = 0;       // in staging_: what is not parsed yet
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;     // the long message that is being received
  char* destination_ = nullptr;  // where its next byte goes
  std::size_t left_ = 0;         // bytes left of its current data frame
};

}  // namespace ddp::internal
