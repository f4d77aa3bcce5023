// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/messages.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cstdint>
#include <utility>

#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "rendezvous/wire/fields.h"
#include "rendezvous/wire/protocol.h"

namespace ddprun::rendezvous::etcd {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr int kMostRounds = INT_MAX / 2;  // later rounds and restarts count from there

std::string base64(std::string_view bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (size_t k = i; k < i + 3; ++k) {
      group = group << 8 | (k < bytes.size() ? static_cast<unsigned char>(bytes[k]) : 0);
    }
    for (size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[group >> (18 - 6 * k) & 63] : '=';
    }
  }
  return text;
}

/// Decodes up to the first character that does not belong to base64.
std::string from_base64(std::string_view text) {
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char digit : text) {
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) break;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

std::string text_of(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && field->is_string() ? field->get<std::string>() : "";
}

/// The number in field `name`; 0 if it is left out.
std::int64_t number_of(const Json& object, const char* name) {
  return leading_number<std::int64_t>(text_of(object, name)).value_or(0);
}

/// The object in field `name`; empty if it is left out.
const Json& object_of(const Json& object, const char* name) {
  static const Json empty = Json::object();
  const auto field = object.find(name);
  return field != object.end() && field->is_object() ? *field : empty;
}

std::string key(std::string_view job, const char* name) {
  return base64("/ddprun/" + std::string(job) + "/" + name);
}

Json read(std::string_view job, const char* name) {
  return {{"request_range", {{"key", key(job, name)}}}};
}

Json read_both(std::string_view job) {
  return Json::array({read(job, "master"), read(job, "state")});
}

Json write(std::string_view job, const char* name, std::string_view value, LeaseId lease) {
  return {{"request_put",
           {{"key", key(job, name)}, {"value", base64(value)}, {"lease", std::to_string(lease)}}}};
}

/// `target`: CREATE or MOD; `field`: create_revision or mod_revision.
Json compare(std::string_view job, const char* name, const char* target, const char* field,
             Revision revision) {
  return {{"key", key(job, name)},
          {"target", target},
          {"result", "EQUAL"},
          {field, std::to_string(revision)}};
}

Post post(const char* path, const Json& body) {
  return {path, json_text(body)};
}

Post encode_one(const request::Look&, std::string_view job, std::string_view) {
  return post("/v3/kv/txn", {{"success", read_both(job)}});
}

Post encode_one(const request::Grant& grant, std::string_view, std::string_view) {
  return post("/v3/lease/grant", {{"TTL", std::to_string(grant.ttl.count())}});
}

Post encode_one(const request::Create& create, std::string_view job, std::string_view master) {
  return post("/v3/kv/txn",
              {{"compare", {compare(job, "master", "CREATE", "create_revision", 0)}},
               {"success", {write(job, "master", master, create.lease), read(job, "state")}},
               {"failure", read_both(job)}});
}

Post encode_one(const request::Renew& renew, std::string_view, std::string_view) {
  return post("/v3/lease/keepalive", {{"ID", std::to_string(renew.lease)}});
}

Post encode_one(const request::Record& record, std::string_view job, std::string_view) {
  const Json ours = compare(job, "master", "CREATE", "create_revision", record.epoch);
  const Json next = compare(job, "state", "MOD", "mod_revision", record.after);
  return post("/v3/kv/txn", {{"compare", {ours, next}},
                             {"success", {write(job, "state", record.state, record.lease)}},
                             {"failure", read_both(job)}});
}

Post encode_one(const request::Revoke& revoke, std::string_view, std::string_view) {
  return post("/v3/lease/revoke", {{"ID", std::to_string(revoke.lease)}});
}

/// The key that the read at `place` of a transaction found; null: none.
const Json& found(const Json& object, size_t place) {
  static const Json none;
  const auto responses = object.find("responses");
  if (responses == object.end() || !responses->is_array() || responses->size() <= place) {
    return none;
  }
  const Json& range = object_of((*responses)[place], "response_range");
  const auto keys = range.find("kvs");
  if (keys == range.end() || !keys->is_array() || keys->empty()) return none;
  return keys->front().is_object() ? keys->front() : none;
}

std::optional<Recorded> state_in(const Json& object, size_t place) {
  const Json& kv = found(object, place);
  if (kv.is_null()) return std::nullopt;
  return Recorded{number_of(kv, "lease"), number_of(kv, "mod_revision"),
                  from_base64(text_of(kv, "value"))};
}

answer::Keys keys(const Json& object) {
  answer::Keys keys;
  if (const Json& kv = found(object, 0); !kv.is_null()) {
    keys.master = Holder{number_of(kv, "lease"), number_of(kv, "create_revision"),
                         from_base64(text_of(kv, "value"))};
  }
  keys.state = state_in(object, 1);
  return keys;
}

bool succeeded(const Json& object) {
  const auto field = object.find("succeeded");
  return field != object.end() && field->is_boolean() && field->get<bool>();
}

Revision revision_of(const Json& object) {
  return number_of(object_of(object, "header"), "revision");
}

Answer answer_to(const request::Look&, const Json& object) {
  return keys(object);
}
Answer answer_to(const request::Grant&, const Json& object) {
  return answer::Granted{number_of(object, "ID"), std::chrono::seconds(number_of(object, "TTL"))};
}
Answer answer_to(const request::Create&, const Json& object) {
  if (!succeeded(object)) return keys(object);
  return answer::Created{revision_of(object), state_in(object, 1)};
}
Answer answer_to(const request::Renew&, const Json& object) {
  return answer::Renewed{std::chrono::seconds(number_of(object_of(object, "result"), "TTL"))};
}
Answer answer_to(const request::Record&, const Json& object) {
  if (!succeeded(object)) return keys(object);
  return answer::Written{revision_of(object)};
}
Answer answer_to(const request::Revoke&, const Json&) {
  return answer::Revoked{};
}

Error wrong(const std::string& what) {
  return {Errc::protocol, what};
}

Error not_json() {
  return wrong("an answer that is no JSON object");
}

/// The object in `body`; nullopt: it is no JSON object.
std::optional<Json> parse(std::string_view body) {
  auto object = parse_bounded(body);
  if (!object.is_object()) return std::nullopt;
  return std::optional<Json>(std::in_place, std::move(object));
}

/// The text of the Reply that announces the end.
std::string ending_text(const Ending& ending) {
  constexpr size_t kLength = 4;  // of a frame, before its body
  return encode(Reply(Notification(Closed{ending}))).substr(kLength);
}

constexpr size_t kMostWords = 300;  // in bytes, of a server's answer

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Etcd's words for errors that no other attempt changes, and what to do.
struct Lasting {
  std::string_view words;
  std::string_view advice;
};
constexpr std::array kLasting = std::to_array<Lasting>({
    {"authentication failed", "correct DDPRUN_ETCD_USER=name:password"},
    {"user name is empty", "give DDPRUN_ETCD_USER=name:password"},
    {"permission denied", "its role has to read and write the keys below /ddprun/"},
    {"authentication is not enabled", "unset DDPRUN_ETCD_USER"},
});

/// The refusal of a server that is no etcd, or none with this API.
Refusal stranger(unsigned status, std::string_view body) {
  if (contains(body, "HTTP request to an HTTPS server")) {
    return {Refusal::Kind::lasting, "it speaks TLS: give --rdzv_conf protocol=https,cacert=FILE"};
  }
  return {Refusal::Kind::server,
          "HTTP status " + std::to_string(status) + ": it does not answer as etcd 3.4 or later"};
}

/// A server that has lost the others answers with 5xx, an overloaded one with 408 or 429.
bool is_about_server(unsigned status) {
  return status >= 500 || status == 408 || status == 429 || status == 499;
}

}  // namespace

Post encode(const Request& request, std::string_view job, std::string_view master) {
  return std::visit([&](const auto& r) { return encode_one(r, job, master); }, request);
}

/// Each answer has a header; a renewal's is inside.
Result<Answer> decode(const Request& request, std::string_view body) {
  const std::optional<Json> object = parse(body);
  if (!object) return not_json();
  if (!object->contains("header") && !object->contains("result")) {
    return wrong("an answer that is not etcd's");
  }
  Answer answer = std::visit([&](const auto& r) { return answer_to(r, *object); }, request);
  const auto* granted = std::get_if<answer::Granted>(&answer);
  const bool has_lease =
      granted == nullptr || (granted->lease != 0 && granted->ttl > std::chrono::seconds::zero());
  if (!has_lease) return wrong("no lease");
  return answer;
}

Post encode_login(std::string_view user, std::string_view password) {
  return post("/v3/auth/authenticate", {{"name", user}, {"password", password}});
}

Result<std::string> decode_login(std::string_view body) {
  const std::optional<Json> object = parse(body);
  if (!object) return not_json();
  std::string token = text_of(*object, "token");
  if (token.empty()) return wrong("no token");
  return token;
}

std::string decode_error(std::string_view body) {
  // The body may have a second part after the object.
  const auto object = parse_bounded(body.substr(0, body.find('}') + 1));
  return object.is_object() ? text_of(object, "error") : "";
}

Refusal judge_refusal(unsigned status, std::string_view body, const std::string& user) {
  constexpr unsigned kBadRequest = 400, kUnauthorized = 401;
  const std::string words = printable(cut(decode_error(body), kMostWords));
  if (words.empty()) return stranger(status, body);
  const auto* const lasting =
      std::find_if(kLasting.begin(), kLasting.end(),
                   [&words](const Lasting& each) { return contains(words, each.words); });
  if (lasting != kLasting.end()) {
    const std::string subject = user.empty() ? "" : "user '" + user + "': ";
    return {Refusal::Kind::lasting, subject + words + "; " + std::string(lasting->advice)};
  }
  if (is_about_server(status)) return {Refusal::Kind::server, words};
  // A token lasts for minutes, or until users are changed: then its revision of auth is too old.
  const bool is_token = status == kUnauthorized || status == kBadRequest;
  return {is_token ? Refusal::Kind::token : Refusal::Kind::request, words};
}

std::string encode_master(const Endpoint& master) {
  return json_text(Json{{"host", master.host}, {"port", master.port}});
}

Result<Endpoint> decode_master(std::string_view value) {
  const std::optional<Json> object = parse(value);
  if (!object) return not_json();
  Fields fields(*object);
  Endpoint master{fields.text("host"),
                  static_cast<std::uint16_t>(fields.integer("port", 1, 65535))};
  return fields.or_error(std::move(master));
}

std::string encode_state(const JobState& state) {
  Json object = {{"round", state.round}, {"restarts", state.restarts}};
  if (state.ending) object["end"] = ending_text(*state.ending);
  return json_text(object);
}

Result<JobState> decode_state(std::string_view value) {
  const std::optional<Json> object = parse(value);
  if (!object) return not_json();
  Fields fields(*object);
  JobState state{
      fields.integer("round", -1, kMostRounds), fields.integer("restarts", 0, kMostRounds), {}};
  if (fields.has("end")) {
    Result<Reply> end = decode_reply(text_of(*object, "end"));
    if (!end) return end.error();
    const auto* notification = std::get_if<Notification>(&*end);
    const auto* closed = notification ? std::get_if<Closed>(notification) : nullptr;
    if (closed == nullptr) return wrong("an invalid end of the job");
    state.ending = closed->ending;
  }
  return fields.or_error(std::move(state));
}

}  // namespace ddprun::rendezvous::etcd
