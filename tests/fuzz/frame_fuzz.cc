// SPDX-License-Identifier: Apache-2.0
// What another process sends for messages between ranks: however the bytes are cut, the same is
// understood, data lies where it was asked for, and there is room for more.
//
// Input: a byte, how many are read at once, then what comes.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "collectives/backends/gloo/frame.h"

namespace {

using ddp::internal::Frame;
using ddp::internal::FrameReader;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// One who takes every frame, and the data of messages 0 to 3 as far as there is place.
struct Taker {
  std::string told;
  std::array<std::string, 4> messages;
  std::array<std::size_t, 4> moved = {};

  Taker() { messages.fill(std::string(300, '-')); }

  FrameReader::Events events() {
    return {
        [this](const Frame& frame, const char* data) {
          require(frame.is_sound() && frame.follow() <= Frame::kShort,
                  "a frame keeps to the bound");
          told.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
          told.append(data, frame.follow());
          return true;
        },
        [this](std::uint64_t number, std::size_t bytes) -> std::optional<char*> {
          if (number >= messages.size() || bytes > 300 - moved[number]) return std::nullopt;
          return messages[number].data() + moved[number];
        },
        [this](std::uint64_t number, std::size_t bytes) {
          require(bytes <= 300 - moved[number], "no more comes than was asked for");
          moved[number] += bytes;
        },
    };
  }
};

/// Whether all of it made sense.
bool feed(FrameReader& reader, std::string_view bytes, std::size_t piece) {
  while (!bytes.empty()) {
    const auto room = reader.room();
    require(room[0].size() + room[1].size() > 0, "there is room");
    std::size_t taken = 0;
    for (const auto& place : room) {
      const std::size_t part = std::min({place.size(), piece - taken, bytes.size()});
      if (part == 0) continue;
      std::memcpy(place.data(), bytes.data(), part);
      bytes.remove_prefix(part);
      taken += part;
    }
    if (!reader.take(taken)) return false;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  Taker whole;
  Taker cut;
  FrameReader at_once(whole.events());
  FrameReader in_pieces(cut.events());
  require(feed(at_once, bytes, size) == feed(in_pieces, bytes, std::size_t{1} + data[0]),
          "sense does not depend on the cuts");
  require(whole.told == cut.told && whole.messages == cut.messages && whole.moved == cut.moved,
          "what is understood does not depend on the cuts");
  return 0;
}
