// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"
#include "rendezvous/round.h"

// What agents and the rendezvous server say to each other. A connection begins with the greeting,
// then come frames in both directions: a 32-bit big-endian length and that many bytes of JSON, one
// object with a "type". Pure.

namespace ddprun::rendezvous {

/// The protocol's version; both sides must speak the same one.
inline constexpr int kProtocolVersion = 1;

/// A control connection's first bytes: these letters, then the version as 16 bits, big-endian. No
/// store client begins with a 'd' (0x64): one port serves both.
inline constexpr std::string_view kGreetingName = "ddprun";
inline constexpr size_t kGreetingSize = 8;

/// The largest frame body, in bytes. A report with its last words stays far below.
inline constexpr size_t kMaxFrame = 128 * 1024;

/// What an agent says.
namespace message {

struct Join {
  std::string run_id;  ///< only agents of the same job may meet
  JoinRequest request;
};
struct Fail {
  int round;
  Failure failure;
};
struct Succeed {
  int round;
};
struct Leave {};

}  // namespace message

using Message = std::variant<message::Join, message::Fail, message::Succeed, message::Leave>;

/// The greeting of this version.
std::string greeting();

/// The version in a greeting of kGreetingSize bytes; nullopt: it is none.
std::optional<int> greeted_version(std::string_view bytes);

/// A whole frame, ready to be sent. Texts that are not UTF-8 have those bytes replaced; last words
/// and causes are cut to fit.
std::string encode(const Message& message);
std::string encode(const Letter& letter);

/// The body of one frame. Errors: protocol, naming what is missing or out of range.
Result<Message> decode_message(std::string_view body);
Result<Letter> decode_letter(std::string_view body);

/// Cuts a stream of bytes into frame bodies. Nothing is kept beyond one frame.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }

  /// The next whole body; nullopt: more bytes are needed. Errors: protocol (a frame longer than
  /// kMaxFrame; the stream is of no use any more).
  Result<std::optional<std::string>> next();

 private:
  std::string buffer_;
};

}  // namespace ddprun::rendezvous
