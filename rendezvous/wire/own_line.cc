// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/own_line.h"

#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/wire/control_frames.h"

namespace ddprun::rendezvous {
namespace {

bool is_plain(const Message& message) {
  const auto* join = std::get_if<message::Join>(&message);
  if (join != nullptr) return join->request.last_round < 0 && join->request.cannot_run.empty();
  return std::holds_alternative<message::Hello>(message) ||
         std::holds_alternative<Heartbeat>(message) ||
         std::holds_alternative<message::Succeed>(message) ||
         std::holds_alternative<message::Gone>(message);
}

bool is_plain(const Notification& notification) {
  const auto* closed = std::get_if<Closed>(&notification);
  if (closed != nullptr) return std::holds_alternative<Succeeded>(closed->ending);
  const auto* ready = std::get_if<Ready>(&notification);
  return ready != nullptr && ready->suspect.empty();
}

bool is_plain(const Reply& reply) {
  const auto* notification = std::get_if<Notification>(&reply);
  if (notification != nullptr) return is_plain(*notification);
  return std::holds_alternative<reply::Welcome>(reply) || std::holds_alternative<Heartbeat>(reply);
}

template <class M>
Result<std::string> body_of(const M& message) {
  FrameReader frames;
  frames.feed(encode(message));
  Result<std::optional<std::string>> body = frames.next();
  if (!body) return body.error();
  return std::move(**body);
}

}  // namespace

Result<Message> handed_over(Message message) {
  if (is_plain(message)) return message;
  const Result<std::string> body = body_of(message);
  return body ? decode_message(*body) : body.error();
}

Result<Reply> handed_over(Reply reply) {
  if (is_plain(reply)) return reply;
  const Result<std::string> body = body_of(reply);
  return body ? decode_reply(*body) : body.error();
}

}  // namespace ddprun::rendezvous
