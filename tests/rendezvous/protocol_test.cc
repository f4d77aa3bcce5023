// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol.h"

#include <limits>

#include <nlohmann/json.hpp>

#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::rendezvous;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

/// The body of the only frame in `bytes`, fed one byte at a time.
std::string body_of(const std::string& bytes) {
  FrameReader reader;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    reader.feed(bytes.substr(i, 1));
    const bool whole = must(reader.next()).has_value();
    if (whole) FAIL("a frame before its last byte");
  }
  reader.feed(bytes.substr(bytes.size() - 1));
  const std::optional<std::string> body = must(reader.next());
  REQUIRE(body);
  CHECK(body->size() <= kMaxFrame);
  return *body;
}

template <class T>
T sent_and_received(const Message& message) {
  const Message received = must(decode_message(body_of(encode(message))));
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

template <class T>
T answered(const Reply& reply) {
  const Reply received = must(decode_reply(body_of(encode(reply))));
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

template <class T>
T delivered(const Letter& letter) {
  const auto received = answered<Letter>(letter);
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

Failure sample_failure() {
  Failure failure;
  failure.rank = 7;
  failure.wait_status = 9;
  failure.pid = 4711;
  failure.seconds = 41.25;
  failure.host = "gpu-07";
  failure.cause = "out of memory";
  failure.last_words = "line \"one\"\nline\ttwo\n";
  failure.exception = "RuntimeError: loss is nan";
  failure.traceback = "  File \"train.py\", line 12, in train\nRuntimeError: loss is nan";
  return failure;
}

void check_same(const Failure& a, const Failure& b) {
  CHECK(a.rank == b.rank);
  CHECK(a.wait_status == b.wait_status);
  CHECK(a.pid == b.pid);
  CHECK(a.seconds == b.seconds);
  CHECK(a.host == b.host);
  CHECK(a.cause == b.cause);
  CHECK(a.last_words == b.last_words);
  CHECK(a.exception == b.exception);
  CHECK(a.traceback == b.traceback);
}

JoinRequest sample_request() {
  JoinRequest request;
  request.local_size = 8;
  request.node_rank = 3;
  request.host = "gpu-07";
  request.is_host = true;
  request.hosting = true;
  request.store_port = 41237;
  request.last_round = 4;
  request.last_node_rank = 2;
  request.last_guests = 6;
  request.restarts = 1;
  request.aftermath.victims = {{5, "exit 1"}, {6, "killed by SIGABRT"}};
  request.aftermath.stopped = {0, 1, 2};
  request.aftermath.killed = {2};
  request.aftermath.signal = "SIGTERM";
  request.aftermath.seconds = 0.25;
  return request;
}

void check_same(const Aftermath& a, const Aftermath& b) {
  REQUIRE(a.victims.size() == b.victims.size());
  for (size_t i = 0; i < a.victims.size(); ++i) {
    CHECK(a.victims[i].rank == b.victims[i].rank);
    CHECK(a.victims[i].how == b.victims[i].how);
  }
  CHECK(a.stopped == b.stopped);
  CHECK(a.killed == b.killed);
  CHECK(a.signal == b.signal);
  CHECK(a.seconds == b.seconds);
}

message::Hello sample_hello() {
  return {"job42", 2, 4, "gpu-07", "0123abcd", 17};
}

reply::Welcome sample_welcome() {
  return {"9876fedc", true, 23, milliseconds(2'000), milliseconds(10'000), 3};
}

Layout sample_layout() {
  Layout layout;
  layout.round = 2;
  layout.restarts = 1;
  layout.node_rank = 1;
  layout.node_count = 3;
  layout.first_rank = 8;
  layout.local_size = 4;
  layout.world_size = 20;
  layout.guests = 2;
  layout.store_port = 41237;
  layout.store_host = "10.0.0.7";
  return layout;
}

/// A text of `size` bytes, each of which takes six in JSON.
std::string nasty(size_t size) {
  return std::string(size, '\x01');
}

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

/// Each of the values in place of the right one is refused by the name of its field.
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

TEST_CASE("what an agent says arrives as it was said") {
  const auto hello = sent_and_received<message::Hello>(sample_hello());
  CHECK(hello.run_id == "job42");
  CHECK(hello.min_nodes == 2);
  CHECK(hello.max_nodes == 4);
  CHECK(hello.host == "gpu-07");
  CHECK(hello.session == "0123abcd");
  CHECK(hello.received == 17);

  const auto fail = sent_and_received<message::Fail>(message::Fail{5, sample_failure()});
  CHECK(fail.round == 5);
  check_same(fail.failure, sample_failure());

  CHECK(sent_and_received<Heartbeat>(Heartbeat{1ULL << 53}).received == 1ULL << 53);
  CHECK(sent_and_received<message::Succeed>(message::Succeed{6}).round == 6);
  sent_and_received<message::Leave>(message::Leave{});
  sent_and_received<message::Ask>(message::Ask{});
}

TEST_CASE("a request to join arrives with all that the node knows of earlier rounds") {
  JoinRequest request = sample_request();
  const auto join = sent_and_received<message::Join>(message::Join{request}).request;
  CHECK(join.local_size == 8);
  CHECK(join.node_rank == 3);
  CHECK(join.host == "gpu-07");
  CHECK(join.is_host);
  CHECK(join.hosting);
  CHECK(join.store_port == 41237);
  CHECK(join.last_round == 4);
  CHECK(join.last_node_rank == 2);
  CHECK(join.last_guests == 6);
  CHECK(join.restarts == 1);
  check_same(join.aftermath, request.aftermath);

  const auto first = sent_and_received<message::Join>(message::Join{JoinRequest()}).request;
  CHECK_FALSE(first.node_rank.has_value());
  CHECK_FALSE(first.hosting);
  CHECK(first.last_round == -1);
  CHECK(first.last_node_rank == -1);
  check_same(first.aftermath, Aftermath());
}

TEST_CASE("what the master says beside letters arrives as it was said") {
  const auto welcome = answered<reply::Welcome>(sample_welcome());
  CHECK(welcome.master == "9876fedc");
  CHECK(welcome.resumed);
  CHECK(welcome.received == 23);
  CHECK(welcome.heartbeat == milliseconds(2'000));
  CHECK(welcome.lease == milliseconds(10'000));
  CHECK(welcome.max_restarts == 3);

  CHECK(answered<Heartbeat>(Heartbeat{12}).received == 12);
  CHECK(answered<reply::Waiting>(reply::Waiting{"1 of 2 nodes"}).sentence == "1 of 2 nodes");
}

TEST_CASE("letters arrive as they were written") {
  const Layout arrived = delivered<Ready>(Ready{sample_layout()}).layout;
  CHECK(arrived.round == 2);
  CHECK(arrived.restarts == 1);
  CHECK(arrived.node_rank == 1);
  CHECK(arrived.node_count == 3);
  CHECK(arrived.first_rank == 8);
  CHECK(arrived.local_size == 4);
  CHECK(arrived.world_size == 20);
  CHECK(arrived.guests == 2);
  CHECK(arrived.store_port == 41237);
  CHECK(arrived.store_host == "10.0.0.7");

  const auto broken = delivered<Broken>(Broken{"rank 7 failed", sample_failure(), 2, true});
  CHECK(broken.reason == "rank 7 failed");
  CHECK(broken.restarts == 2);
  CHECK(broken.ends_job);
  check_same(broken.root_cause.value(), sample_failure());
  const auto membership = delivered<Broken>(Broken{"a node left", {}, 0, false});
  CHECK_FALSE(membership.root_cause.has_value());
  CHECK_FALSE(membership.ends_job);

  CHECK(delivered<Refused>(Refused{"taken"}).sentence == "taken");
}

TEST_CASE("the end of the job arrives as it came, with what became of the others") {
  CHECK(std::holds_alternative<Succeeded>(delivered<Closed>(Closed{Succeeded{}}).ending));

  const Failed sent = {sample_failure(), 3, "ranks 0-6 were stopped\nrank 9 failed", "no restart"};
  const auto failed = std::get<Failed>(delivered<Closed>(Closed{sent}).ending);
  check_same(failed.root_cause, sample_failure());
  CHECK(failed.round == 3);
  CHECK(failed.aftermath == sent.aftermath);
  CHECK(failed.no_restart == "no restart");

  const auto timed_out = delivered<Closed>(Closed{TimedOut{"node 1 is missing"}});
  CHECK(std::get<TimedOut>(timed_out.ending).sentence == "node 1 is missing");
}

TEST_CASE("last words in any bytes and of any length fit into a frame") {
  Failure failure = sample_failure();
  failure.last_words = nasty(100'000) + "\xff\xfe the end";
  failure.cause = nasty(100'000);
  failure.exception = nasty(100'000);
  failure.traceback = nasty(100'000) + "raise";
  failure.host = nasty(100'000);
  const auto fail = sent_and_received<message::Fail>(message::Fail{0, failure});
  CHECK(fail.failure.last_words.ends_with(" the end"));

  const Failed sent = {failure, 0, nasty(100'000) + "the others", nasty(100'000) + "why"};
  const auto failed = std::get<Failed>(delivered<Closed>(Closed{sent}).ending);
  CHECK(failed.root_cause.last_words.ends_with(" the end"));
  CHECK(failed.root_cause.traceback.ends_with("raise"));
  CHECK(failed.aftermath.ends_with("the others"));
  CHECK(failed.no_restart.ends_with("why"));

  const auto broken = delivered<Broken>(Broken{nasty(100'000) + "reason", failure, 0, true});
  CHECK(broken.reason.ends_with("reason"));
}

TEST_CASE("a node that stopped a hundred thousand workers tells of the first of them") {
  JoinRequest request;
  request.host = nasty(100'000);
  Aftermath& aftermath = request.aftermath;
  const int last = std::numeric_limits<int>::max();
  for (int i = 0; i < 100'000; ++i) {
    aftermath.victims.push_back({last - i, nasty(1'000)});
    aftermath.stopped.push_back(last - i);
    aftermath.killed.push_back(last - i);
  }
  aftermath.signal = nasty(100'000);
  aftermath.seconds = 1e300;
  const auto arrived = sent_and_received<message::Join>(message::Join{request}).request.aftermath;
  REQUIRE(arrived.victims.size() > 100);
  CHECK(arrived.victims.size() < aftermath.victims.size());
  CHECK(arrived.victims.front().rank == last);
  CHECK(arrived.victims.front().how.size() > 32);
  REQUIRE(arrived.stopped.size() > 1'000);
  CHECK(arrived.stopped.size() < aftermath.stopped.size());
  CHECK(arrived.stopped.front() == last);
  CHECK(arrived.killed.front() == last);
  CHECK(arrived.seconds == 1e300);
}

TEST_CASE("several frames in one piece are cut apart") {
  FrameReader reader;
  reader.feed(encode(Message(message::Succeed{1})) + encode(Message(message::Leave{})));
  CHECK(must(reader.next()).has_value());
  CHECK(must(reader.next()).has_value());
  CHECK_FALSE(must(reader.next()).has_value());
}

TEST_CASE("a frame that claims to be too long is refused before its bytes come") {
  FrameReader reader;
  reader.feed(std::string("\x00\x04\x00\x01", 4));
  CHECK(reader.next().has_error());
}

TEST_CASE("nonsense is an error, never a crash") {
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

TEST_CASE("a number of an agent's that cannot be is refused by its name") {
  check_refused(encode(Message(sample_hello())), decode_message,
                {{"/min_nodes", 0},
                 {"/max_nodes", 1},
                 {"/max_nodes", kTooBig},
                 {"/received", -1},
                 {"/received", (1ULL << 53) + 1},
                 {"/received", 0.5},
                 {"/run_id", 7},
                 {"/host", kTooLong},
                 {"/session", nullptr}});
  check_refused(encode(Message(Heartbeat{1})), decode_message, {{"/received", "1"}});
  check_refused(encode(Message(message::Join{sample_request()})), decode_message,
                {{"/local_size", 0},
                 {"/local_size", 65'537},
                 {"/node_rank", -1},
                 {"/node_rank", kTooBig},
                 {"/is_host", 1},
                 {"/hosting", "no"},
                 {"/store_port", 65'536},
                 {"/last_round", -2},
                 {"/last_round", (1LL << 31) - 1},
                 {"/last_node_rank", -2},
                 {"/last_guests", -1},
                 {"/restarts", -1},
                 {"/aftermath", json::array()},
                 {"/aftermath/victims", json::object()},
                 {"/aftermath/victims/1/rank", -1},
                 {"/aftermath/victims/0/how", 3},
                 {"/aftermath/stopped", 3},
                 {"/aftermath/stopped", std::vector<int>(2'049)},
                 {"/aftermath/killed", {-1}},
                 {"/aftermath/killed", {kTooBig}},
                 {"/aftermath/signal", 15},
                 {"/aftermath/seconds", -0.5}});
  check_refused(encode(Message(message::Fail{0, sample_failure()})), decode_message,
                {{"/round", -1},
                 {"/failure", "x"},
                 {"/failure/rank", -1},
                 {"/failure/wait_status", 0x10000},
                 {"/failure/pid", 0},
                 {"/failure/seconds", "long"},
                 {"/failure/last_words", kTooLong},
                 {"/failure/exception", nullptr},
                 {"/failure/traceback", json::array()}});
}

TEST_CASE("a number of the master's that cannot be is refused by its name") {
  check_refused(encode(Reply(sample_welcome())), decode_reply,
                {{"/master", 1},
                 {"/resumed", 0},
                 {"/received", -1},
                 {"/heartbeat_ms", -1},
                 {"/lease_ms", 1e18},
                 {"/lease_ms", 1'000'000'000'001},
                 {"/max_restarts", -1}});
  check_refused(encode(Reply(Letter(Ready{sample_layout()}))), decode_reply,
                {{"/round", kTooBig},
                 {"/restarts", -1},
                 {"/node_count", 0},
                 {"/node_rank", 3},
                 {"/world_size", 0},
                 {"/local_size", 21},
                 {"/first_rank", 17},
                 {"/guests", 4},
                 {"/store_port", -1},
                 {"/store_host", false}});
  check_refused(encode(Reply(Letter(Broken{"", sample_failure(), 0, true}))), decode_reply,
                {{"/restarts", -1}, {"/ends_job", 1}, {"/root_cause/pid", 0}});
  check_refused(encode(Reply(Letter(Closed{Failed{sample_failure(), 0, "", ""}}))), decode_reply,
                {{"/round", -1}, {"/aftermath", 1}, {"/no_restart", 1}, {"/failed/rank", -1}});
}

TEST_CASE("the greeting tells the version, and other first bytes are no greeting") {
  CHECK(greeting().size() == kGreetingSize);
  CHECK(greeted_version(greeting()) == kProtocolVersion);
  CHECK(greeted_version(std::string("ddprun\x01\x02", 8)) == 258);
  CHECK_FALSE(greeted_version("ddprun"));
  CHECK_FALSE(greeted_version("GET / HTTP/1.1"));
}
