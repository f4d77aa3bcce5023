// SPDX-License-Identifier: Apache-2.0
// Messages that the control protocol refuses, and the names of their faults.
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "rendezvous/wire/protocol.h"
#include "tests/catch.h"
#include "tests/rendezvous/wire/protocol_samples.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using nlohmann::json;

namespace {

std::string refusal(std::string_view body) {
  const Result<Message> message = decode_message(body);
  REQUIRE(message.has_error());
  CHECK(message.error().code == Errc::protocol);
  return message.error().message;
}

/// A field somewhere in a body, and a value that it cannot have.
struct Wrong {
  const char* field;
  json value;
};

/// Checks that each of these values is refused, by the name of its field.
template <class Decode>
void check_refused(const std::string& frame, Decode decode, const std::vector<Wrong>& wrongs) {
  const json body = json::parse(body_of(frame));
  REQUIRE(decode(body.dump()).has_value());
  for (const Wrong& wrong : wrongs) {
    const json::json_pointer at(wrong.field);
    const std::string name = "'" + at.back() + "'";
    json changed = body;
    changed.at(at) = wrong.value;
    INFO(changed.dump());
    const auto refused = decode(changed.dump());
    REQUIRE(refused.has_error());
    CHECK(refused.error().code == Errc::protocol);
    CHECK(refused.error().message.find(name) != std::string::npos);
  }
}

const json kTooBig = 1ULL << 31;
const json kTooLong = std::string(13'000, 'x');

}  // namespace

TEST_CASE("an invalid message is an error, never a crash") {
  for (const char* body :
       {"", "{", "[]", "17", "null", "{\"type\":5}", "{\"type\":\"dance\"}", "{\"type\":\"hello\"}",
        "{\"type\":\"heartbeat\"}", "{\"type\":\"join\"}", "{\"type\":\"fail\",\"round\":1}",
        "{\"type\":\"welcome\"}"}) {
    INFO(body);
    refusal(body);
  }
  CHECK(refusal(R"({"type":"succeed"})").find("'round'") != std::string::npos);
  CHECK(refusal(R"({"type":"succeed","round":1.5})").find("'round'") != std::string::npos);
  CHECK(refusal(R"({"type":"succeed","round":99999999999999999999})").find("'round'") !=
        std::string::npos);
  CHECK(refusal("{\"type\":\"" + std::string(1'000, 'x') + "\"}").size() < 100);
  for (const char* body :
       {"", "[]", "{\"type\":\"ready\"}", "{\"type\":\"welcome\"}", "{\"type\":\"waiting\"}",
        "{\"type\":\"closed\",\"failed\":3}", "{\"type\":\"hello\"}", "{\"type\":\"ask\"}"}) {
    INFO(body);
    CHECK(decode_reply(body).has_error());
  }
}

TEST_CASE("an impossible value in an agent's message is refused by its field's name") {
  check_refused(encode(Message(sample_hello())), decode_message,
                {{"/min_nodes", 0},
                 {"/max_nodes", 1},
                 {"/max_nodes", kTooBig},
                 {"/received", -1},
                 {"/received", (1ULL << 53) + 1},
                 {"/received", 0.5},
                 {"/run_id", 7},
                 {"/host", kTooLong},
                 {"/session", nullptr},
                 {"/addresses", "10.0.0.1"},
                 {"/addresses", std::vector<std::string>(33, "10.0.0.1")},
                 {"/addresses", {10}},
                 {"/addresses", {std::string(46, '1')}}});
  check_refused(encode(Message(Heartbeat{1})), decode_message, {{"/received", "1"}});
  check_refused(encode(Message(message::Join{sample_request()})), decode_message,
                {{"/local_size", 0},
                 {"/local_size", 65'537},
                 {"/node_rank", -1},
                 {"/node_rank", kTooBig},
                 {"/is_host", 1},
                 {"/hosting", "no"},
                 {"/store_port", 65'536},
                 {"/cannot_run", 1},
                 {"/command", nullptr},
                 {"/command_hash", (1ULL << 53) + 1},
                 {"/role", std::string(257, 'r')},
                 {"/last_round", -2},
                 {"/last_round", 1LL << 30},
                 {"/last_master", std::string(65, 'm')},
                 {"/last_node_rank", -2},
                 {"/last_guests", -1},
                 {"/last_restarts", -1},
                 {"/restarts", -1},
                 {"/restarts", 0},  // fewer than at the last round
                 {"/restarts", 1LL << 30},
                 {"/unreported_failure", 1},
                 {"/unreported_failure/rank", -1},
                 {"/unreported_failure/wait_status", 0},
                 {"/worker_exits", json::array()},
                 {"/worker_exits/failed", json::object()},
                 {"/worker_exits/failed/1/rank", -1},
                 {"/worker_exits/failed/0/how", 3},
                 {"/worker_exits/failed/0/consequence", 1},
                 {"/worker_exits/places", 3},
                 {"/worker_exits/places/0/ranks", {-1}},
                 {"/worker_exits/places/1/kind", 9},
                 {"/worker_exits/places/1/kind", -1},
                 {"/worker_exits/calls", 3},
                 {"/worker_exits/calls/0/group", -1},
                 {"/worker_exits/calls/0/begun", 0.5},
                 {"/worker_exits/calls/0/open", "1"},
                 {"/worker_exits/calls/0/shown", 3},
                 {"/worker_exits/calls/0/ranks", {-1}},
                 {"/worker_exits/calls/0/recent", 3},
                 {"/worker_exits/calls/0/failed", 3},
                 {"/worker_exits/calls/0/release", 3},
                 {"/worker_exits/failed/1/lost_peer", 3},
                 {"/worker_exits/places/0/what", 3},
                 {"/worker_exits/places/0/seconds", -1},
                 {"/worker_exits/stopped", 3},
                 {"/worker_exits/stopped", std::vector<int>(2'049)},
                 {"/worker_exits/killed", {-1}},
                 {"/worker_exits/killed", {kTooBig}},
                 {"/worker_exits/signal", 15},
                 {"/worker_exits/seconds", -0.5},
                 {"/worker_exits/seconds", 1.1e9}});
  NodeProgress progress = {0, true, 1, sample_request().worker_exits.places};
  check_refused(encode(Message(message::Progress{progress})), decode_message,
                {{"/progress", 1},
                 {"/progress/round", -1},
                 {"/progress/quiet", 1},
                 {"/progress/seconds", -1},
                 {"/progress/places", 1},
                 {"/progress/places/0/ranks", std::vector<int>(1'025)}});
  Failure hung = sample_failure();
  hung.hung = true;
  check_refused(encode(Message(message::Fail{0, hung})), decode_message, {{"/failure/hung", 1}});
  check_refused(encode(Message(message::Fail{0, sample_failure()})), decode_message,
                {{"/round", -1},
                 {"/failure", "x"},
                 {"/failure/rank", -1},
                 {"/failure/wait_status", 0x10000},
                 {"/failure/wait_status", 0},     // success
                 {"/failure/wait_status", 0x7f},  // stopped
                 {"/failure/wait_status", 0xffff},
                 {"/failure/seconds", 1e308},
                 {"/failure/pid", -1},
                 {"/failure/seconds", "long"},
                 {"/failure/stderr_tail", kTooLong},
                 {"/failure/exception", nullptr},
                 {"/failure/traceback", json::array()},
                 {"/failure/log_folder", 7}});
}

TEST_CASE("an impossible value in a master's message is refused by its field's name") {
  check_refused(encode(Reply(sample_welcome())), decode_reply,
                {{"/master", 1},
                 {"/resumed", 0},
                 {"/received", -1},
                 {"/heartbeat_ms", -1},
                 {"/lease_ms", 1e18},
                 {"/lease_ms", 1'000'000'000'001},
                 {"/max_restarts", -1},
                 {"/hang_timeout_ms", -1}});
  check_refused(encode(Reply(Notification(Stalled{"x"}))), decode_reply, {{"/text", 1}});
  check_refused(encode(Reply(Notification(Ready{sample_layout()}))), decode_reply,
                {{"/round", kTooBig},
                 {"/restarts", -1},
                 {"/node_count", 0},
                 {"/node_rank", 3},
                 {"/world_size", 0},
                 {"/local_size", 21},
                 {"/first_rank", 17},
                 {"/guests", 4},
                 {"/role_world_size", 3},
                 {"/role_world_size", 21},
                 {"/role_first_rank", 6},
                 {"/role_first_rank", -1},
                 {"/store_port", -1},
                 {"/store_host", false}});
  check_refused(encode(Reply(Notification(Broken{"", sample_failure(), 0, true}))), decode_reply,
                {{"/restarts", -1}, {"/ends_job", 1}, {"/root_cause/pid", -1}});
  check_refused(encode(Reply(Notification(Closed{Failed{sample_failure(), 0, "", ""}}))),
                decode_reply,
                {{"/ending/round", -1},
                 {"/ending/summary", 1},
                 {"/ending/no_restart", 1},
                 {"/ending/suspect", 1},
                 {"/ending/root_cause/rank", -1}});
}
