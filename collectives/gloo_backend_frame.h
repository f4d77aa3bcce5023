// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

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
  };

  Kind kind = Kind::hello;
  std::uint8_t type = 0;      ///< of a message: a DataType
  std::uint8_t is_short = 0;  ///< of a message: whether its data follows
  std::uint8_t unused = 0;    ///< 0
  std::int32_t tag = 0;       ///< of a message; hello: the rank
  std::uint64_t number = 0;   ///< which message of this direction, from 1; hello: the token
  std::uint64_t count = 0;    ///< of a message: elements

  /// The longest data, in bytes, that goes without being asked for.
  static constexpr std::size_t kShort = 64 << 10;

  /// Whether it is one of the above, with a type and a count that memory could hold.
  bool is_sound() const;

  /// Bytes of data that follow; those of Kind::data not among them. Of a sound frame.
  std::size_t follow() const;
};
static_assert(sizeof(Frame) == 24);

}  // namespace ddp::internal
