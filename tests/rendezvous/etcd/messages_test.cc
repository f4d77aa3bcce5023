// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/etcd/messages.h"

#include "tests/catch.h"
#include "tests/must.h"

namespace ddprun::rendezvous::etcd {
namespace {

using namespace std::chrono_literals;

// The answers are etcd 3.4.23's, with headers cut.

template <class T>
T answer_of(const Request& request, std::string_view body) {
  return std::get<T>(must(decode(request, body)));
}

TEST_CASE("the master's key is made only if there is none, and the state is read with it") {
  const Post post = encode(request::Create{2324035559794595847}, "x", "v");
  CHECK(post.path == "/v3/kv/txn");
  CHECK(post.body ==
        R"({"compare":[{"create_revision":"0","key":"L2RkcHJ1bi94L21hc3Rlcg==","result":"EQUAL",)"
        R"("target":"CREATE"}],"failure":[{"request_range":{"key":"L2RkcHJ1bi94L21hc3Rlcg=="}},)"
        R"({"request_range":{"key":"L2RkcHJ1bi94L3N0YXRl"}}],"success":[{"request_put":{"key":)"
        R"("L2RkcHJ1bi94L21hc3Rlcg==","lease":"2324035559794595847","value":"dg=="}},)"
        R"({"request_range":{"key":"L2RkcHJ1bi94L3N0YXRl"}}]})");
  const auto created = answer_of<answer::Created>(
      request::Create{},
      R"({"header":{"revision":"2"},"succeeded":true,"responses":[{"response_put":{"header":{}}},)"
      R"({"response_range":{"header":{"revision":"2"}}}]})");
  CHECK(created.epoch == 2);
  CHECK_FALSE(created.state);
}

TEST_CASE("a node that comes too late gets the master and the state") {
  const auto keys = answer_of<answer::Keys>(
      request::Create{},
      R"({"header":{"revision":"9"},"responses":[{"response_range":{"kvs":[{"key":"L2Q=",)"
      R"("create_revision":"2","mod_revision":"4","version":"2","value":"dg==","lease":"77"}],)"
      R"("count":"1"}},{"response_range":{"kvs":[{"key":"cw==","create_revision":"3",)"
      R"("mod_revision":"8","value":"e30=","lease":"78"}]}}]})");
  REQUIRE(keys.master);
  CHECK(keys.master->lease == 77);
  CHECK(keys.master->epoch == 2);
  CHECK(keys.master->value == "v");
  REQUIRE(keys.state);
  CHECK(keys.state->lease == 78);
  CHECK(keys.state->revision == 8);
  CHECK(keys.state->state == "{}");
}

TEST_CASE("only the master writes the state, and only over the revision that it knows") {
  const Post post = encode(request::Record{5, 8, 78, "s"}, "x", "v");
  CHECK(post.body.starts_with(
      R"({"compare":[{"create_revision":"5","key":"L2RkcHJ1bi94L21hc3Rlcg==","result":"EQUAL",)"
      R"("target":"CREATE"},{"key":"L2RkcHJ1bi94L3N0YXRl","mod_revision":"8","result":"EQUAL",)"
      R"("target":"MOD"}])"));
  const auto written = answer_of<answer::Written>(
      request::Record{}, R"({"header":{"revision":"9"},"succeeded":true,"responses":[{}]})");
  CHECK(written.revision == 9);
  CHECK_FALSE(answer_of<answer::Keys>(request::Record{}, R"({"header":{"revision":"9"}})").master);
}

TEST_CASE("leases are granted, renewed or gone") {
  CHECK(encode(request::Grant{30s}, "x", "").body == R"({"TTL":"30"})");
  const auto granted =
      answer_of<answer::Granted>(request::Grant{}, R"({"header":{},"ID":"2324","TTL":"6"})");
  CHECK(granted.lease == 2324);
  CHECK(granted.ttl == 6s);
  const auto renewed = [](std::string_view body) {
    return answer_of<answer::Renewed>(request::Renew{}, body).ttl;
  };
  CHECK(renewed(R"({"result":{"header":{},"ID":"12345","TTL":"60"}}
)") == 60s);
  CHECK(renewed(R"({"result":{"header":{},"ID":"12345"}})") == 0s);
}

TEST_CASE("responses that are not from etcd are rejected") {
  const char* body = GENERATE("", "[]", "<html>", "{}", R"({"error":"no"})", "\xff");
  CHECK_FALSE(decode(request::Look{}, body).has_value());
  CHECK_FALSE(decode(request::Renew{}, body).has_value());
  CHECK_FALSE(decode(request::Grant{}, R"({"header":{}})").has_value());
  const auto keys = answer_of<answer::Keys>(
      request::Look{}, R"({"header":1,"responses":[{"response_range":{"kvs":[7]}},3]})");
  CHECK_FALSE(keys.master);
}

TEST_CASE("an answer that nests too deep is rejected") {
  const std::string deep(400'000, '[');
  const std::string body = R"({"header":{},"responses":[{"response_range":{"kvs":[{"value":)" +
                           deep + std::string(deep.size(), ']') + "}]}}]}";
  CHECK_FALSE(decode(request::Look{}, body).has_value());
  CHECK_FALSE(decode_login(body).has_value());
  CHECK_FALSE(decode_state(body).has_value());
  CHECK(decode_error(R"({"error":)" + deep + "}").empty());
}

TEST_CASE("an error's text is found, also before a second part") {
  CHECK(
      decode_error(R"({"error":"etcdserver: no leader","code":14}Grpc-Trailer-Content-Type: x)") ==
      "etcdserver: no leader");
  CHECK(decode_error("404 page not found").empty());
}

TEST_CASE("the master's address and the job's state are decoded as they were encoded") {
  const Endpoint master = must(decode_master(encode_master({"fd00::1", 4711})));
  CHECK(master.text() == "[fd00::1]:4711");
  CHECK_FALSE(decode_master(R"({"host":"a","port":0})").has_value());
  CHECK_FALSE(decode_master("a:1").has_value());

  JobState state{7, 2, {}};
  CHECK(must(decode_state(encode_state(state))).round == 7);
  CHECK_FALSE(must(decode_state(encode_state(state))).ending);
  Failed failed;
  failed.root_cause.rank = 3;
  failed.root_cause.wait_status = 256;
  failed.root_cause.pid = 9;
  failed.summary = std::string("a \"text\"\nof \xff lines");
  failed.no_restart = "no restart left";
  state.ending = failed;
  const JobState back = must(decode_state(encode_state(state)));
  CHECK(back.restarts == 2);
  REQUIRE(back.ending);
  CHECK(std::get<Failed>(*back.ending).root_cause.rank == 3);
  CHECK(std::get<Failed>(*back.ending).no_restart == "no restart left");
  CHECK_FALSE(decode_state(R"({"round":-2,"restarts":0})").has_value());
  CHECK_FALSE(decode_state(R"({"round":1,"restarts":0,"end":"{}"})").has_value());
}

}  // namespace
}  // namespace ddprun::rendezvous::etcd
