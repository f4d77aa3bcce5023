// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "fuzz/target.h"

namespace ddprun::fuzz {

/// `bytes`, cut into pieces of `size`.
inline std::vector<std::string_view> pieces_of(std::string_view bytes, std::size_t size) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < bytes.size(); at += size) pieces.push_back(bytes.substr(at, size));
  return pieces;
}

/// Whether the whole stream is valid for a ddp::internal::FrameReader.
template <class Reader>
bool feed(Reader& reader, std::string_view bytes, std::size_t piece) {
  while (!bytes.empty()) {
    const auto room = reader.room();
    require(room[0].size() + room[1].size() > 0, "there is room");
    std::size_t given = 0;
    for (const auto& place : room) {
      const std::size_t part = std::min({place.size(), piece - given, bytes.size()});
      if (part == 0) continue;
      std::memcpy(place.data(), &bytes.front(), part);
      bytes.remove_prefix(part);
      given += part;
    }
    if (!reader.take(given)) return false;
  }
  return true;
}

}  // namespace ddprun::fuzz
