// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

// The bytes of a control connection: the greeting, then frames, each a 32-bit big-endian length and
// as many bytes, its body. protocol.h describes the bodies. Pure.

namespace ddprun::rendezvous {

/// The protocol's version; both sides must speak the same one.
inline constexpr int kProtocolVersion = 6;

/// A control connection's first bytes: these characters, then the version as 16 bits, big-endian.
/// No store client begins with a 'd' (0x64): one port serves both.
inline constexpr std::string_view kGreetingName = "ddprun";
inline constexpr size_t kGreetingSize = 8;

/// The largest frame body, in bytes. A report with its stderr tail stays far below.
inline constexpr size_t kMaxFrame = 256 * 1024;

/// The largest first frame of a connection, whose sender is unknown yet.
inline constexpr size_t kMaxFirstFrame = 16 * 1024;

/// The greeting of this version.
std::string greeting();

/// The version in a greeting of kGreetingSize bytes; nullopt: the bytes are no greeting.
std::optional<int> greeted_version(std::string_view bytes);

/// A whole frame, ready to be sent.
std::string frame_of(std::string_view body);

/// Cuts a stream of bytes into frame bodies. Keeps no more than one frame.
class FrameReader {
 public:
  /// `most`: the longest frame.
  explicit FrameReader(size_t most = kMaxFrame) : most_(most) {}

  void feed(std::string_view bytes);

  /// From now on frames may be as long as kMaxFrame.
  void allow_long_frames() { most_ = kMaxFrame; }

  /// The next whole body; nullopt: more bytes are needed. Errors: protocol (a frame that is too
  /// long; the stream cannot be read any further).
  Result<std::optional<std::string>> next();

 private:
  size_t most_;
  std::string buffer_;
  size_t begin_ = 0;  // of the next frame
};

}  // namespace ddprun::rendezvous
