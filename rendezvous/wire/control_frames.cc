// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/control_frames.h"

#include "base/byte_order.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kKeptBuffer = 1024;  // a silent connection keeps it for its next frame

}  // namespace

std::string greeting() {
  std::string bytes(kGreetingName);
  append_big_endian(bytes, kProtocolVersion, 2);
  return bytes;
}

std::optional<int> greeted_version(std::string_view bytes) {
  if (bytes.size() < kGreetingSize || !bytes.starts_with(kGreetingName)) return std::nullopt;
  return static_cast<int>(big_endian(bytes.substr(kGreetingName.size(), 2)));
}

std::string frame_of(std::string_view body) {
  std::string frame;
  frame.reserve(body.size() + 4);
  append_big_endian(frame, body.size(), 4);
  return frame += body;
}

Result<std::optional<std::string>> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(begin_);
  if (rest.size() < 4) return std::optional<std::string>();
  const size_t size = big_endian(rest.substr(0, 4));
  if (size > most_) {
    return Error{Errc::protocol, "a message of " + std::to_string(size) + " bytes, at most " +
                                     std::to_string(most_) + " are allowed"};
  }
  if (rest.size() < 4 + size) return std::optional<std::string>();
  std::optional<std::string> body(rest.substr(4, size));
  begin_ += 4 + size;
  if (begin_ == buffer_.size() && buffer_.capacity() > kKeptBuffer) {
    std::string().swap(buffer_);
    begin_ = 0;
  }
  return body;
}

void FrameReader::feed(std::string_view bytes) {
  buffer_.erase(0, begin_);
  begin_ = 0;
  buffer_.append(bytes);
}

}  // namespace ddprun::rendezvous
