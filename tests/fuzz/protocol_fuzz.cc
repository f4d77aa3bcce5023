// SPDX-License-Identifier: Apache-2.0
// Bytes of a stranger against the agents' protocol: nothing may break it, how the bytes were cut
// must not show, and what was understood once is understood again, unchanged.
//
//   cmake --preset ... -DDDPRUN_FUZZ=ON -DCMAKE_CXX_COMPILER=clang++
//   bin/protocol_fuzz -max_len=200000 CORPUS tests/fuzz/protocol_corpus
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/protocol.h"

namespace {

using namespace ddprun;
using namespace ddprun::rendezvous;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// Moves all whole bodies out of `reader`. False: the stream is of no use any more.
bool take_bodies(FrameReader& reader, std::vector<std::string>& bodies) {
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
  bool good = true;
  while (good && !stream.empty()) {
    const std::string_view next = stream.substr(0, piece);
    stream.remove_prefix(next.size());
    reader.feed(next);
    good = take_bodies(reader, bodies);
  }
  return bodies;
}

/// The only body of a frame that encode() made.
std::string body_of(const std::string& frame) {
  const std::vector<std::string> bodies = bodies_of(frame, frame.size());
  require(bodies.size() == 1 && bodies.front().size() + 4 == frame.size(), "a frame is a frame");
  return bodies.front();
}

/// Texts may be cut the first time; nothing changes after that.
template <class Decode>
void decode_again(std::string_view body, Decode decode) {
  const auto first = decode(body);
  if (!first) {
    require(first.error().code == Errc::protocol, "nonsense is a protocol error");
    return;
  }
  const std::string frame = encode(*first);
  const auto second = decode(body_of(frame));
  require(second.has_value(), "what was understood is understood again");
  require(second->index() == first->index(), "as the same kind of message");
  require(encode(*second) == frame, "and unchanged");
}

void understand(std::string_view body) {
  decode_again(body, decode_message);
  decode_again(body, decode_reply);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::vector<std::string> bodies = bodies_of(input, input.size());
  require(bodies == bodies_of(input, 1), "frames do not show the cuts");
  for (const std::string& body : bodies) understand(body);
  understand(input);
  return 0;
}
