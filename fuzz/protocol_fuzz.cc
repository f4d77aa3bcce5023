// SPDX-License-Identifier: Apache-2.0
// Arbitrary bytes as the agents' control protocol. Frames do not depend on how the bytes are cut,
// and a decoded message encodes to a frame that decodes to the same message.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/feed.h"
#include "fuzz/target.h"
#include "rendezvous/wire/protocol.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;
using fuzz::require;

/// Moves all complete bodies out of `reader`. False: the stream is invalid.
bool move_bodies(FrameReader& reader, std::vector<std::string>& bodies) {
  for (;;) {
    Result<std::optional<std::string>> body = reader.next();
    if (!body) return false;
    if (!*body) return true;
    require((*body)->size() <= kMaxFrame, "a body keeps to the limit");
    bodies.push_back(std::move(**body));
  }
}

std::vector<std::string> bodies_of(std::string_view stream, size_t piece) {
  FrameReader reader;
  std::vector<std::string> bodies;
  for (const std::string_view each : fuzz::pieces_of(stream, piece)) {
    reader.feed(each);
    if (!move_bodies(reader, bodies)) break;
  }
  return bodies;
}

/// The body of a frame made by encode().
std::string body_of(const std::string& frame) {
  const std::vector<std::string> bodies = bodies_of(frame, frame.size());
  require(bodies.size() == 1 && bodies.front().size() + 4 == frame.size(),
          "encode makes one frame");
  return bodies.front();
}

/// The first decoding may shorten texts; later ones change nothing.
template <class Decode>
void decode_twice(std::string_view body, Decode decode) {
  const auto first = decode(body);
  if (!first) {
    require(first.error().code == Errc::protocol, "an invalid body is a protocol error");
    return;
  }
  const std::string frame = encode(*first);
  const auto second = decode(body_of(frame));
  require(second.has_value(), "an encoded message decodes");
  require(second->index() == first->index(), "to the same kind of message");
  require(encode(*second) == frame, "and unchanged");
}

void decode_both(std::string_view body) {
  decode_twice(body, decode_message);
  decode_twice(body, decode_reply);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> bodies = bodies_of(input, input.size());
  require(bodies == bodies_of(input, 1), "frames do not depend on the cuts");
  for (const std::string& body : bodies) decode_both(body);
  decode_both(input);
  return 0;
}
