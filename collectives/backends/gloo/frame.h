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

/// What one rank tells another about messages, in one direction of its own connection. Sent as it
/// lies in memory, so it has no padding.
struct Frame {
  enum class Kind : std::uint8_t {
    hello,    ///< the first: who comes
    message,  ///< a message was begun; if it is short, its data follows at once
    go,       ///< the receiver's: the long message's data may come
    data,     ///< of a long message: the next `count` bytes
    credit,   ///< the receiver's: short messages of `count` bytes in all were taken
    bye,      ///< no message follows, and none is waited for
    watch,    ///< the first and last: who comes, to see us end while it connects
  };

  Kind kind = Kind::hello;
  std::uint8_t type = 0;      ///< of a message: a DataType
  std::uint8_t is_short = 0;  ///< of a message: whether its data follows
  std::uint8_t unused = 0;    ///< 0
  std::int32_t tag = 0;       ///< of a message; hello and watch: the rank
  std::uint64_t number = 0;   ///< which message of this direction, from 1; hello, watch: the token
  std::uint64_t count = 0;    ///< of a message: elements

  /// The longest data, in bytes, that goes without being asked for.
  static constexpr std::size_t kShort = 64 << 10;

  /// Whether it is one of the above, with a type and a count that memory could hold.
  bool is_sound() const;

  /// Bytes of data that follow; those of Kind::data not among them. Of a sound frame.
  std::size_t follow() const;
};
static_assert(sizeof(Frame) == 24);

/// Understands what another process sends on one connection, whatever that is. Pure.
class FrameReader {
 public:
  struct Events {
    /// A frame, but for those of Kind::data, and the data that follows it. Whether it makes sense.
    std::function<bool(const Frame& frame, const char* data)> heard;
    /// Where that many bytes of a message go; nothing: that makes no sense.
    std::function<std::optional<char*>(std::uint64_t number, std::size_t bytes)> place;
    std::function<void(std::uint64_t number, std::size_t bytes)> came;
  };

  explicit FrameReader(Events events) : events_(std::move(events)), staging_(sizeof(Frame)) {}

  /// Where the next bytes go, in this order: data of a long message straight to its place, the next
  /// frame behind it to us. There is always room.
  std::array<std::span<char>, 2> room();

  /// So many bytes were put there. False: they make no sense, and the connection is of no more use.
  bool take(std::size_t bytes);

 private:
  bool understand();
  void move(std::size_t bytes);

  Events events_;
  std::vector<char> staging_;  // enough for a first frame, until there was a hello
  std::size_t begin_ = 0;      // of what is not yet understood in staging_
  std::size_t end_ = 0;
  std::uint64_t number_ = 0;  // of the message whose data comes
  char* place_ = nullptr;     // of its next byte
  std::size_t left_ = 0;      // of its piece
};

}  // namespace ddp::internal
