// SPDX-License-Identifier: Apache-2.0
#include "collectives/backends/cpu/frame.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "collectives/backends/shm/other_memory.h"
#include "collectives/call/call.h"
#include "ddp/types.h"

namespace ddp::internal {
namespace {

/// Enough for several frames, and for most short messages.
constexpr std::size_t kStaging = std::size_t{128} << 10;

}  // namespace

bool Frame::is_sound() const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / 8;
  if (kind > Kind::calls || count > kMost || is_short + has_place > 1) return false;
  if (type > static_cast<std::uint8_t>(kLastType)) return false;
  return follow() <= kShort;
}

std::size_t Frame::follow() const {
  if (kind != Kind::message) return 0;
  if (has_place != 0) return sizeof(MemoryPlace);
  return is_short != 0 ? count * size_of(static_cast<DataType>(type)) : 0;
}

std::array<std::span<char>, 2> FrameReader::room() {
  const std::size_t room = staging_.size() - end_;
  return {std::span(destination_, left_),
          std::span(staging_.data() + end_, left_ > 0 ? std::min(room, sizeof(Frame)) : room)};
}

bool FrameReader::take(std::size_t bytes) {
  const std::size_t direct = std::min(bytes, left_);
  if (direct > 0) advance(direct);
  end_ += bytes - direct;
  return parse();
}

void FrameReader::advance(std::size_t bytes) {
  destination_ += bytes;
  left_ -= bytes;
  events_.on_data(number_, bytes);
}

bool FrameReader::parse() {
  for (;;) {
    if (const std::size_t staged = std::min(left_, end_ - begin_); staged > 0) {
      std::memcpy(destination_, staging_.data() + begin_, staged);
      begin_ += staged;
      advance(staged);
    }
    Frame frame;
    if (left_ > 0 || end_ - begin_ < sizeof(frame)) break;
    const char* const data = staging_.data() + begin_ + sizeof(frame);
    std::memcpy(&frame, staging_.data() + begin_, sizeof(frame));
    if (!frame.is_sound()) return false;
    const std::size_t size = sizeof(frame) + frame.follow();
    if (size > staging_.size()) {
      if (!is_identified_) return false;
      staging_.resize(sizeof(Frame) + Frame::kShort);
    }
    if (end_ - begin_ < size) break;
    begin_ += size;
    if (frame.kind != Frame::Kind::data) {
      if (!events_.on_frame(frame, data)) return false;
      is_identified_ = is_identified_ || frame.kind == Frame::Kind::hello;
      // Most ranks of a node say no more than that.
      const bool is_greeting = frame.kind == Frame::Kind::hello || frame.kind == Frame::Kind::bye;
      if (is_identified_ && !is_greeting && staging_.size() < kStaging) staging_.resize(kStaging);
      if (frame.kind == Frame::Kind::turn) begin_ = end_;  // only bytes that wake this end
      continue;
    }
    const std::optional<char*> destination = events_.destination(frame.number, frame.count);
    if (!destination) return false;
    number_ = frame.number;
    destination_ = *destination;
    left_ = frame.count;
    if (left_ == 0) advance(0);
  }
  if (begin_ == 0) return true;
  std::copy(staging_.begin() + static_cast<std::ptrdiff_t>(begin_),
            staging_.begin() + static_cast<std::ptrdiff_t>(end_), staging_.begin());
  end_ -= std::exchange(begin_, 0);
  return true;
}

}  // namespace ddp::internal
