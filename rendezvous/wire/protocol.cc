// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/protocol.h"

#include <climits>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "rendezvous/wire/control_frames.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/message_values.h"

namespace ddprun::rendezvous {
namespace {

using nlohmann::json;

constexpr size_t kMaxSession = 64;
constexpr size_t kMaxAddress = 45;                      // an IPv6 one
constexpr size_t kMaxAsked = 256;                       // connections in one question
constexpr size_t kMostFirstValues = 4 * kMaxAddresses;  // a hello has its addresses and ten more

// The names of the messages on the wire.
constexpr const char* kHello = "hello";
constexpr const char* kHeartbeat = "heartbeat";
constexpr const char* kAsk = "ask";
constexpr const char* kWhose = "whose";
constexpr const char* kOwned = "owned";
constexpr const char* kGetSecret = "get_secret";
constexpr const char* kSealedSecret = "sealed_secret";
constexpr const char* kWelcome = "welcome";
constexpr const char* kWaiting = "waiting";
constexpr const char* kJoin = "join";
constexpr const char* kFail = "fail";
constexpr const char* kSucceed = "succeed";
constexpr const char* kProgress = "progress";
constexpr const char* kLeave = "leave";
constexpr const char* kGone = "gone";
constexpr const char* kReady = "ready";
constexpr const char* kBroken = "broken";
constexpr const char* kClosed = "closed";
constexpr const char* kRefused = "refused";
constexpr const char* kStalled = "stalled";

std::string body_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

json to_json(const message::Hello& hello) {
  json object = {{"type", kHello},
                 {"run_id", tail(hello.run_id)},
                 {"min_nodes", hello.min_nodes},
                 {"max_nodes", hello.max_nodes},
                 {"host", tail(hello.host)},
                 {"session", hello.session},
                 {"received", hello.received},
                 {"ticket", hello.ticket},
                 {"number", hello.number}};
  if (!hello.addresses.empty()) object["addresses"] = hello.addresses;
  return object;
}

json to_json(const Heartbeat& heartbeat) {
  return {{"type", kHeartbeat}, {"received", heartbeat.received}};
}

json to_json(const message::Ask&) {
  return {{"type", kAsk}};
}

json to_json(const reply::Welcome& welcome) {
  return {{"type", kWelcome},
          {"master", welcome.master},
          {"resumed", welcome.resumed},
          {"received", welcome.received},
          {"heartbeat_ms", welcome.heartbeat.count()},
          {"lease_ms", welcome.lease.count()},
          {"max_restarts", welcome.max_restarts},
          {"ticket", welcome.ticket},
          {"hang_timeout_ms", welcome.hang_timeout.count()}};
}

json to_json(const reply::Waiting& waiting) {
  return {{"type", kWaiting}, {"sentence", tail(waiting.sentence)}};
}

json to_json(const message::GetSecret&) {
  return {{"type", kGetSecret}};
}

json to_json(const reply::SealedSecret& sealed) {
  return {{"type", kSealedSecret}, {"credential", sealed.credential}};
}

json to_json(const reply::Whose& whose) {
  json connections = json::array();
  for (const SocketEnds& ends : whose.connections) connections.push_back(json_of(ends));
  return {{"type", kWhose}, {"connections", std::move(connections)}};
}

json to_json(const message::Owned& owned) {
  return {{"type", kOwned}, {"ours", owned.ours}};
}

json to_json(const message::Join& join) {
  json object = json_of(join.request);
  object["type"] = kJoin;
  return object;
}

json to_json(const message::Fail& fail) {
  return {{"type", kFail}, {"round", fail.round}, {"failure", json_of(fail.failure)}};
}

json to_json(const message::Succeed& succeed) {
  return {{"type", kSucceed}, {"round", succeed.round}};
}

json to_json(const message::Progress& message) {
  return {{"type", kProgress}, {"progress", json_of(message.progress)}};
}

json to_json(const message::Leave& leave) {
  return {{"type", kLeave}, {"signal", leave.signal}};
}

json to_json(const message::Gone& gone) {
  return {{"type", kGone}, {"session", gone.session}, {"how", tail(gone.how)}};
}

json to_json(const Ready& ready) {
  json object = json_of(ready.layout);
  object["type"] = kReady;
  object["suspect"] = tail(ready.suspect);
  return object;
}

json to_json(const Broken& broken) {
  json object = {{"type", kBroken},
                 {"reason", tail(broken.reason)},
                 {"restarts", broken.restarts},
                 {"ends_job", broken.ends_job}};
  if (broken.root_cause) object["root_cause"] = json_of(*broken.root_cause);
  return object;
}

json to_json(const Closed& closed) {
  json object = json_of(closed.ending);
  object["type"] = kClosed;
  return object;
}

json to_json(const Refused& refused) {
  return {{"type", kRefused},
          {"sentence", tail(refused.sentence)},
          {"left_out", refused.left_out},
          {"is_stranger", refused.is_stranger}};
}

json to_json(const Inquiry& inquiry) {
  return json_of(inquiry);
}

json to_json(const Stalled& stalled) {
  return {{"type", kStalled}, {"text", tail(stalled.text)}};
}

json to_json(const Notification& notification) {
  return std::visit([](const auto& l) { return to_json(l); }, notification);
}

/// The master only compares them with addresses that it knows.
std::vector<std::string> addresses_in(Fields& fields) {
  std::vector<std::string> addresses;
  if (!fields.has("addresses")) return addresses;
  for (const json& address : fields.list("addresses", kMaxAddresses)) {
    const auto* text = address.get_ptr<const std::string*>();
    if (text == nullptr || text->size() > kMaxAddress) return fields.refuse("addresses"), addresses;
    addresses.push_back(*text);
  }
  return addresses;
}

Result<Message> decode_hello(Fields fields) {
  message::Hello hello;
  hello.run_id = fields.text("run_id");
  hello.min_nodes = fields.integer("min_nodes", 1, INT_MAX);
  hello.max_nodes = fields.integer("max_nodes", hello.min_nodes, INT_MAX);
  hello.host = fields.text("host");
  hello.session = fields.text("session");
  if (hello.session.size() > kMaxSession) fields.refuse("session");
  hello.received = fields.count("received");
  hello.ticket = fields.text("ticket");
  hello.number = fields.count("number");
  hello.addresses = addresses_in(fields);
  return fields.or_error<Message>(std::move(hello));
}

Result<Reply> decode_welcome(Fields fields) {
  reply::Welcome welcome;
  welcome.master = fields.text("master");
  welcome.resumed = fields.boolean("resumed");
  welcome.received = fields.count("received");
  welcome.heartbeat = fields.milliseconds("heartbeat_ms");
  welcome.lease = fields.milliseconds("lease_ms");
  welcome.max_restarts = fields.integer("max_restarts", 0, INT_MAX);
  welcome.ticket = fields.text("ticket");
  welcome.hang_timeout = fields.milliseconds("hang_timeout_ms");
  return fields.or_error<Reply>(std::move(welcome));
}

Result<Message> decode_join(Fields fields) {
  JoinRequest request = join_request_in(fields);
  return fields.or_error<Message>(message::Join{std::move(request)});
}

Result<Message> decode_fail(Fields fields) {
  message::Fail fail;
  fail.round = fields.integer("round", 0, INT_MAX);
  fail.failure = failure_in(fields, "failure");
  return fields.or_error<Message>(std::move(fail));
}

Result<Message> decode_progress(Fields fields) {
  NodeProgress progress = node_progress_in(fields, "progress");
  return fields.or_error<Message>(message::Progress{std::move(progress)});
}

Result<Message> decode_owned(Fields fields) {
  message::Owned owned;
  for (const json& ours : fields.list("ours", kMaxAsked)) {
    if (!ours.is_boolean()) fields.refuse("ours");
    owned.ours.push_back(ours == true);
  }
  return fields.or_error<Message>(std::move(owned));
}

Result<Reply> decode_whose(Fields fields) {
  reply::Whose whose;
  for (const json& ends : fields.list("connections", kMaxAsked)) {
    whose.connections.push_back(socket_ends(Fields(ends), fields));
  }
  return fields.or_error<Reply>(std::move(whose));
}

Result<Message> decode_leave(Fields fields) {
  constexpr size_t kMostOfName = 32;
  message::Leave leave;
  if (fields.has("signal")) leave.signal = fields.text("signal", kMostOfName);
  return fields.or_error<Message>(std::move(leave));
}

Result<Message> decode_gone(Fields fields) {
  message::Gone gone;
  gone.session = fields.text("session");
  gone.how = fields.text("how");
  return fields.or_error<Message>(std::move(gone));
}

Result<Reply> decode_ready(Fields fields) {
  Layout layout = layout_in(fields);
  std::string suspect = fields.text("suspect");
  return fields.or_error<Reply>(Ready{std::move(layout), std::move(suspect)});
}

Result<Reply> decode_broken(Fields fields) {
  Broken broken;
  broken.reason = fields.text("reason");
  broken.restarts = fields.integer("restarts", 0, INT_MAX);
  broken.ends_job = fields.boolean("ends_job");
  if (fields.has("root_cause")) broken.root_cause = failure_in(fields, "root_cause");
  return fields.or_error<Reply>(std::move(broken));
}

Result<Reply> decode_closed(Fields fields) {
  Ending ending = ending_in(fields);
  return fields.or_error<Reply>(Closed{std::move(ending)});
}

template <class T>
Result<T> decode_inquiry(Fields fields, const std::string& type) {
  Inquiry inquiry = inquiry_in(fields, type);
  return fields.or_error<T>(std::move(inquiry));
}

json parse_object(std::string_view text, size_t most_values = std::string_view::npos) {
  auto object = parse_bounded<json>(text, most_values);
  return object.is_object() ? std::move(object) : json::object();
}

Error unknown_type(const std::string& type) {
  return {Errc::protocol, "unknown message type '" + type.substr(0, 32) + "'"};
}

Result<Message> message_in(const json& object) {
  Fields fields(object);
  const std::string type = fields.text("type");
  if (type == kHello) return decode_hello(fields);
  if (type == kHeartbeat) return fields.or_error<Message>(Heartbeat{fields.count("received")});
  if (type == kJoin) return decode_join(fields);
  if (type == kFail) return decode_fail(fields);
  if (type == kSucceed) {
    const int round = fields.integer("round", 0, INT_MAX);
    return fields.or_error<Message>(message::Succeed{round});
  }
  if (type == kProgress) return decode_progress(fields);
  if (type == kLeave) return decode_leave(fields);
  if (type == kAsk) return Message(message::Ask{});
  if (type == kOwned) return decode_owned(fields);
  if (type == kGetSecret) return Message(message::GetSecret{});
  if (type == kGone) return decode_gone(fields);
  if (is_inquiry(type)) return decode_inquiry<Message>(fields, type);
  return unknown_type(type);
}

}  // namespace

std::string encode(const Message& message) {
  return frame_of(body_of(std::visit([](const auto& m) { return to_json(m); }, message)));
}

std::string encode(const Reply& reply) {
  return frame_of(body_of(std::visit([](const auto& r) { return to_json(r); }, reply)));
}

Result<Message> decode_message(std::string_view body) {
  return message_in(parse_object(body));
}

Result<Message> decode_first_message(std::string_view body) {
  return message_in(parse_object(body, kMostFirstValues));
}

Result<Reply> decode_reply(std::string_view body) {
  const json object = parse_object(body);
  Fields fields(object);
  const std::string type = fields.text("type");
  if (type == kWelcome) return decode_welcome(fields);
  if (type == kHeartbeat) return fields.or_error<Reply>(Heartbeat{fields.count("received")});
  if (type == kWaiting) return fields.or_error<Reply>(reply::Waiting{fields.text("sentence")});
  if (type == kSealedSecret) {
    return fields.or_error<Reply>(reply::SealedSecret{fields.text("credential", kMaxCredential)});
  }
  if (type == kWhose) return decode_whose(fields);
  if (type == kReady) return decode_ready(fields);
  if (is_inquiry(type)) return decode_inquiry<Reply>(fields, type);
  if (type == kBroken) return decode_broken(fields);
  if (type == kClosed) return decode_closed(fields);
  if (type == kStalled) return fields.or_error<Reply>(Stalled{fields.text("text")});
  if (type == kRefused) {
    Refused refused{fields.text("sentence"), fields.boolean("left_out"),
                    fields.has("is_stranger") && fields.boolean("is_stranger")};
    return fields.or_error<Reply>(std::move(refused));
  }
  return unknown_type(type);
}

}  // namespace ddprun::rendezvous
