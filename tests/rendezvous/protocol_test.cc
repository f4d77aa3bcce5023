// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/protocol.h"

#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun;
using namespace ddprun::rendezvous;

namespace {

/// The body of the only frame in `bytes`, fed one byte at a time.
std::string body_of(const std::string& bytes) {
  FrameReader reader;
  for (size_t i = 0; i + 1 < bytes.size(); ++i) {
    reader.feed(bytes.substr(i, 1));
    REQUIRE_FALSE(must(reader.next()));
  }
  reader.feed(bytes.substr(bytes.size() - 1));
  const std::optional<std::string> body = must(reader.next());
  REQUIRE(body);
  return *body;
}

template <class T>
T sent_and_received(const Message& message) {
  const Message received = must(decode_message(body_of(encode(message))));
  REQUIRE(std::holds_alternative<T>(received));
  return std::get<T>(received);
}

template <class T>
T delivered(const Letter& letter) {
  const Letter received = must(decode_letter(body_of(encode(letter))));
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
}

Error refusal(std::string_view body) {
  const Result<Message> message = decode_message(body);
  REQUIRE(message.has_error());
  CHECK(message.error().code == Errc::protocol);
  return message.error();
}

}  // namespace

TEST_CASE("what an agent says arrives as it was said") {
  JoinRequest request;
  request.local_size = 8;
  request.node_rank = 3;
  request.host = "gpu-07";
  request.is_host = true;
  request.last_round = 4;
  request.last_node_rank = 2;
  request.restarts = 1;
  const auto join = sent_and_received<message::Join>(message::Join{"job42", request});
  CHECK(join.run_id == "job42");
  CHECK(join.request.local_size == 8);
  CHECK(join.request.node_rank == 3);
  CHECK(join.request.host == "gpu-07");
  CHECK(join.request.is_host);
  CHECK(join.request.last_round == 4);
  CHECK(join.request.last_node_rank == 2);
  CHECK(join.request.restarts == 1);

  request.node_rank.reset();
  CHECK_FALSE(
      sent_and_received<message::Join>(message::Join{"", request}).request.node_rank.has_value());

  const auto fail = sent_and_received<message::Fail>(message::Fail{5, sample_failure()});
  CHECK(fail.round == 5);
  check_same(fail.failure, sample_failure());

  CHECK(sent_and_received<message::Succeed>(message::Succeed{6}).round == 6);
  sent_and_received<message::Leave>(message::Leave{});
}

TEST_CASE("letters arrive as they were written") {
  Layout layout;
  layout.round = 2;
  layout.restarts = 1;
  layout.node_rank = 1;
  layout.node_count = 3;
  layout.first_rank = 8;
  layout.local_size = 4;
  layout.world_size = 20;
  const Layout arrived = delivered<Ready>(Ready{layout}).layout;
  CHECK(arrived.round == 2);
  CHECK(arrived.restarts == 1);
  CHECK(arrived.node_rank == 1);
  CHECK(arrived.node_count == 3);
  CHECK(arrived.first_rank == 8);
  CHECK(arrived.local_size == 4);
  CHECK(arrived.world_size == 20);

  const auto broken = delivered<Broken>(Broken{"rank 7 failed", sample_failure(), 2});
  CHECK(broken.reason == "rank 7 failed");
  CHECK(broken.restarts == 2);
  check_same(broken.root_cause.value(), sample_failure());
  CHECK_FALSE(delivered<Broken>(Broken{"a node left", {}, 0}).root_cause.has_value());

  CHECK(std::holds_alternative<Succeeded>(delivered<Closed>(Closed{Succeeded{}}).ending));
  const auto failed = delivered<Closed>(Closed{Failed{sample_failure()}});
  check_same(std::get<Failed>(failed.ending).root_cause, sample_failure());
  const auto timed_out = delivered<Closed>(Closed{TimedOut{"node 1 is missing"}});
  CHECK(std::get<TimedOut>(timed_out.ending).sentence == "node 1 is missing");

  CHECK(delivered<Refused>(Refused{"taken"}).sentence == "taken");
}

TEST_CASE("last words in any bytes and of any length fit into a frame") {
  Failure failure = sample_failure();
  failure.last_words = std::string(100'000, '\x01') + "\xff\xfe the end";
  failure.cause = std::string(100'000, '\x02');
  failure.host = std::string(100'000, '\x03');
  const auto fail = sent_and_received<message::Fail>(message::Fail{0, failure});
  CHECK(fail.failure.last_words.ends_with(" the end"));
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
  reader.feed(std::string("\x00\x02\x00\x01", 4));
  CHECK(reader.next().has_error());
}

TEST_CASE("nonsense is an error that names the field, never a crash") {
  for (const char* body : {"", "{", "[]", "17", "null", "{\"type\":5}", "{\"type\":\"dance\"}",
                           "{\"type\":\"join\"}", "{\"type\":\"fail\",\"round\":1}"}) {
    INFO(body);
    refusal(body);
  }
  CHECK(refusal(R"({"type":"succeed","round":-1})").message.find("'round'") != std::string::npos);
  CHECK(refusal(R"({"type":"succeed","round":99999999999999999999})").message.find("'round'") !=
        std::string::npos);
  CHECK(refusal(R"({"type":"succeed","round":1.5})").message.find("'round'") != std::string::npos);
  CHECK(decode_letter(R"({"type":"ready"})").has_error());
  CHECK(decode_letter(R"({"type":"closed","failed":3})").has_error());
}

TEST_CASE("a layout whose numbers contradict each other is refused") {
  const char* rank_beyond_nodes =
      R"({"type":"ready","round":0,"restarts":0,"node_count":2,"node_rank":2,)"
      R"("world_size":4,"local_size":2,"first_rank":0})";
  CHECK(decode_letter(rank_beyond_nodes).has_error());
  const char* ranks_beyond_world =
      R"({"type":"ready","round":0,"restarts":0,"node_count":2,"node_rank":1,)"
      R"("world_size":4,"local_size":2,"first_rank":3})";
  CHECK(decode_letter(ranks_beyond_world).has_error());
}

TEST_CASE("the greeting tells the version, and other first bytes are no greeting") {
  CHECK(greeting().size() == kGreetingSize);
  CHECK(greeted_version(greeting()) == kProtocolVersion);
  CHECK(greeted_version(std::string("ddprun\x01\x02", 8)) == 258);
  CHECK_FALSE(greeted_version("ddprun"));
  CHECK_FALSE(greeted_version("GET / HTTP/1.1"));
}
