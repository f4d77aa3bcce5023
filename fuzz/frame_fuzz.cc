// SPDX-License-Identifier: Apache-2.0
// A peer's bytes for messages between ranks. However they are cut, FrameReader decodes the same,
// puts data where it was requested, and always has room for more.
//
// Input: one byte, the size of a piece less one, then the stream.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/backends/cpu/frame.h"
#include "fuzz/feed.h"
#include "fuzz/target.h"

namespace {

using ddp::internal::Frame;
using ddp::internal::FrameReader;
using ddprun::fuzz::feed;
using ddprun::fuzz::require;

/// Records every frame, and the data of messages 0 to 3 up to the size of their buffers.
struct Recorder {
  std::string frames;
  std::array<std::string, 4> messages;
  std::array<std::size_t, 4> moved = {};

  Recorder() { messages.fill(std::string(300, '-')); }

  FrameReader::Events events() {
    return {
        [this](const Frame& frame, const char* data) {
          require(frame.is_sound() && frame.follow() <= Frame::kShort,
                  "a frame keeps to the limit");
          frames.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
          frames.append(data, frame.follow());
          return true;
        },
        [this](std::uint64_t number, std::size_t bytes) -> std::optional<char*> {
          if (number >= messages.size() || bytes > 300 - moved[number]) return std::nullopt;
          return messages[number].data() + moved[number];
        },
        [this](std::uint64_t number, std::size_t bytes) {
          require(bytes <= 300 - moved[number], "no more data comes than was requested");
          moved[number] += bytes;
        },
    };
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Recorder whole;
  Recorder cut;
  FrameReader at_once(whole.events());
  FrameReader in_pieces(cut.events());
  require(feed(at_once, bytes, size) == feed(in_pieces, bytes, std::size_t{1} + data[0]),
          "validity does not depend on the cuts");
  require(whole.frames == cut.frames && whole.messages == cut.messages && whole.moved == cut.moved,
          "frames and data do not depend on the cuts");
  return 0;
}
