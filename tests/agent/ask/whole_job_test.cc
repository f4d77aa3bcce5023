// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/whole_job.h"

#include "agent/ask/log_piece.h"
#include "tests/catch.h"
#include "tests/must.h"

using namespace ddprun::agent::ask;
using ddprun::must;
using ddprun::agent::RankStack;

namespace {

std::string node_answer_of(const std::vector<int>& ranks) {
  JobStatus status;
  NodeStatus& node = status.nodes.emplace_back();
  node.host = "it says so";
  node.node_rank = 7;
  node.pid = 4711;
  node.state = "running";
  for (const int rank : ranks) node.ranks.push_back({rank, 1, "running", "", 1, 1, 1, {}});
  return to_json(status);
}

NodeAnswer node_answer(const std::string& host, int first_rank, const std::string& answer) {
  NodeAnswer node;
  node.node.host = host;
  node.node.first_rank = first_rank;
  node.node.local_size = 2;
  node.answer = answer;
  return node;
}

std::string stacks_at(const std::string& host, const std::vector<int>& ranks) {
  std::vector<RankStack> stacks;
  for (const int rank : ranks) stacks.push_back({rank, {"main (a.py:1)"}, "running", 0});
  return stacks_json(stacks_of_node(host, stacks, {}));
}

}  // namespace

TEST_CASE("whole status: the nodes' answers are in the places that the master gives them") {
  JobStatus own;
  own.job = "j";
  own.nodes.emplace_back().host = "own";
  NodeAnswers answers;
  answers.waiting = "nobody\nelse";
  answers.nodes.push_back(
      {{2, "b", "running", 1, 2, 2, 0.5, true}, node_answer_of({2, 3, 0, 4}), ""});
  answers.nodes.push_back({{1, "a", "running", 0, 0, 2, 0.5, true}, "{\"error\":\"x\"}", ""});
  answers.nodes.push_back({{3, "c", "stopping", 2, 4, 2, 9, false}, "", "it is not connected"});
  const JobStatus whole = whole_status(own, answers);
  CHECK(whole.job == "j");
  CHECK(whole.waiting == "nobody else");
  REQUIRE(whole.nodes.size() == 3);
  CHECK(whole.nodes[0].host == "a");
  CHECK(whole.nodes[0].problem == "its answer is not a valid status");
  const NodeStatus& b = whole.nodes[1];
  CHECK((b.host == "b" && b.node_rank == 1 && b.pid == 4711 && b.problem.empty()));
  REQUIRE(b.ranks.size() == 2);
  CHECK((b.ranks[0].rank == 2 && b.ranks[1].rank == 3));
  CHECK((whole.nodes[2].contact == 9 && whole.nodes[2].problem == "it is not connected"));
}

TEST_CASE("whole status: a node names only its own ranks as those that came last") {
  const auto answer_of = [](int first_rank, int late_rank) {
    JobStatus status;
    NodeStatus& node = status.nodes.emplace_back();
    node.state = "running";
    GroupArrivals group{
        .group = 7, .members = 4, .ranks = {first_rank, first_rank + 1}, .first = 1, .calls = {}};
    for (int call = 0; call < 20; ++call) {
      const std::int64_t at = 100'000 * call + (late_rank > 0 ? 40'000 : 0);
      group.calls.push_back(
          {.rank = late_rank > 0 ? late_rank : first_rank, .at = at, .before = 100'000 * call});
    }
    node.arrivals = TimedArrivals{.clock = {1'000, 1'100}, .groups = {group}};
    return to_json(status);
  };
  const auto slow_with = [&answer_of](int late_rank) {
    NodeAnswers answers;
    answers.nodes.push_back(
        {{1, "a", "running", 0, 0, 2, 0.5, true}, answer_of(0, 0), "", {1'000, 1'100}});
    answers.nodes.push_back(
        {{2, "b", "running", 1, 2, 2, 0.5, true}, answer_of(2, late_rank), "", {1'000, 1'100}});
    const JobStatus whole = whole_status({}, answers);
    CHECK_FALSE(whole.nodes.at(1).arrivals);
    return whole.slow ? whole.slow->rank : -1;
  };
  CHECK(slow_with(3) == 3);
  CHECK(slow_with(1) == -1);
}

TEST_CASE("whole status: without a list it is the asked node's status") {
  JobStatus own;
  own.nodes.emplace_back().host = "own";
  CHECK(whole_status(own, {}).nodes.at(0).host == "own");
}

TEST_CASE("the stacks of all nodes are one tree, and each node reports only its own ranks") {
  NodeAnswers answers;
  answers.nodes = {node_answer("gpu-01", 0, stacks_at("gpu-01", {0, 1, 2})),
                   node_answer("gpu-02", 2, stacks_at("gpu-02", {0, 2, 3}))};
  CHECK(stacks_text(whole_stacks(answers)) ==
        "where ranks 0-3 are, the innermost call last:\nmain (a.py:1)\n[running]");
}

TEST_CASE("a node without an answer, or with another answer than stacks, is named") {
  NodeAnswers answers;
  answers.nodes = {node_answer("gpu-01", 0, stacks_at("gpu-01", {0, 1})),
                   node_answer("gpu-02", 2, ""), node_answer("gpu\n03", 4, "[]")};
  answers.nodes[1].problem = "no answer";
  CHECK(stacks_text(whole_stacks(answers)) ==
        "where ranks 0, 1 are, the innermost call last:\nmain (a.py:1)\n[running]\n"
        "note: gpu-02: no answer\n"
        "note: gpu 03: the stacks of a node are no JSON object");
}

TEST_CASE("log piece: its JSON keeps all of it, and fits into an answer") {
  LogPiece piece = log_piece(3, 1, 100, "one\n\xff\x1b[2J");
  piece.files = {"/a/stdout.log"};
  CHECK(piece.next == 109);
  const LogPiece read = must(log_piece_in(to_json(piece)));
  CHECK((read.rank == 3 && read.round == 1 && read.from == 100 && read.next == 109));
  CHECK(read.text == "one\n\xef\xbf\xbd\x1b[2J");
  CHECK(read.files == piece.files);
  for (const char byte : {'\x01', '\xff', '"'}) {
    const LogPiece full = log_piece(3, 1, 1ULL << 50, std::string(kMaxPiece, byte));
    CHECK(to_json(full).size() < 48 * 1024);
    CHECK(must(log_piece_in(to_json(full))).next == (1ULL << 50) + kMaxPiece);
  }
  CHECK(!log_piece_in("[]"));
  CHECK(!log_piece_in("{\"rank\":-1}"));
}

TEST_CASE("log piece: a character is not cut in two") {
  CHECK(log_piece(0, 0, 0, "gr\xc3\xbc").next == 4);
  CHECK(log_piece(0, 0, 0, "gr\xc3").next == 2);
  CHECK(log_piece(0, 0, 0, "eur\xe2\x82").next == 3);
  CHECK(log_piece(0, 0, 0, "smile\xf0\x9f\x98").next == 5);
  CHECK(log_piece(0, 0, 0, "\xe2\x82").next == 2);  // else the piece would be empty
  CHECK(log_piece(0, 0, 0, "\x80\x80\x80\x80").next == 4);
  CHECK(log_piece(0, 0, 0, "").next == 0);
}
