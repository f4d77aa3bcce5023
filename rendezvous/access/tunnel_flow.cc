// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/access/tunnel_flow.h"

#include <string>

#include "base/byte_order.h"
#include "rendezvous/wire/control_frames.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::string_view kTunnelName = "dtunnl";

constexpr std::size_t kNumber = 4;  // bytes

std::uint32_t number_in(std::string_view bytes) {
  return static_cast<std::uint32_t>(big_endian(bytes.substr(0, kNumber)));
}

bool has_right_size(TunnelFrame::Kind kind, std::size_t size) {
  switch (kind) {
    case TunnelFrame::Kind::open:
    case TunnelFrame::Kind::data:
      return size >= 1 && size <= kMaxTunnelPiece;
    case TunnelFrame::Kind::taken:
      return size == 4;
    case TunnelFrame::Kind::close:
      return size == 0;
  }
  return false;
}

}  // namespace

std::string tunnel_greeting() {
  return std::string(kTunnelName) + greeting().substr(kGreetingName.size());
}

std::string encode(const TunnelFrame& frame) {
  const bool is_taken = frame.kind == TunnelFrame::Kind::taken;
  const std::size_t size = kTunnelHeader + (is_taken ? 4 : frame.bytes.size());
  std::string bytes;
  bytes.reserve(4 + size);
  append_big_endian(bytes, size, kNumber);
  append_big_endian(bytes, frame.connection, kNumber);
  bytes += static_cast<char>(frame.kind);
  if (is_taken) append_big_endian(bytes, frame.count, kNumber);
  return bytes.append(frame.bytes);
}

Result<TunnelFrame> decode_tunnel_frame(std::string_view body) {
  TunnelFrame frame;
  if (body.size() >= kTunnelHeader) frame.kind = static_cast<TunnelFrame::Kind>(body[4]);
  if (body.size() < kTunnelHeader || !has_right_size(frame.kind, body.size() - kTunnelHeader)) {
    return Error{Errc::protocol,
                 "a frame of " + std::to_string(body.size()) + " bytes that no tunnel sends"};
  }
  frame.connection = number_in(body);
  const std::string_view rest = body.substr(kTunnelHeader);
  if (frame.kind == TunnelFrame::Kind::taken) {
    frame.count = number_in(rest);
  } else {
    frame.bytes = rest;
  }
  return frame;
}

Result<> TunnelFlow::confirmed(std::size_t size) {
  if (size > unconfirmed_) {
    return Error{Errc::protocol, std::to_string(size) + " bytes are confirmed, of " +
                                     std::to_string(unconfirmed_) + " sent"};
  }
  unconfirmed_ -= size;
  return {};
}

Result<> TunnelFlow::received(std::size_t size) {
  if (size > kWindow - received_) {
    return Error{Errc::protocol, "more than " + std::to_string(kWindow) +
                                     " bytes of a connection were sent at once"};
  }
  received_ += size;
  return {};
}

/// Most requests and replies are small: confirming each would double the frames.
std::optional<std::uint32_t> TunnelFlow::passed_on(std::size_t size) {
  passed_on_ += size;
  if (passed_on_ < kWindow / 4) return std::nullopt;
  const auto count = static_cast<std::uint32_t>(passed_on_);
  received_ -= passed_on_;
  passed_on_ = 0;
  return count;
}

}  // namespace ddprun::rendezvous
