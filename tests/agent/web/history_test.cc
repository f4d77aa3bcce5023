// SPDX-License-Identifier: Apache-2.0
#include "agent/web/history.h"

#include <csignal>

#include <nlohmann/json.hpp>

#include "tests/catch.h"

using ddprun::agent::web::cause_of;
using ddprun::agent::web::History;
using ddprun::rendezvous::Failure;
using ddprun::rendezvous::Layout;
using nlohmann::json;

namespace {

Layout round_layout(int round, int ranks) {
  Layout layout;
  layout.round = round;
  layout.world_size = ranks;
  layout.node_count = 1;
  return layout;
}

Failure failed_with(int wait_status, int pid = 4711) {
  Failure failure;
  failure.wait_status = wait_status;
  failure.pid = pid;
  failure.rank = 1;
  return failure;
}

}  // namespace

TEST_CASE("web history: a failure is the verdict, and downtime counts, until the next round runs") {
  History history;
  CHECK(history.verdict() == "this node is in no round yet");
  CHECK(history.downtime(5) == 0);
  history.round_began(10, round_layout(0, 4));
  CHECK(history.verdict() == "round 0 runs with 4 ranks on 1 node");
  history.failed(20, failed_with(1 << 8), "rank 1 failed first: exit 1");
  CHECK(history.verdict() == "rank 1 failed first: exit 1");
  CHECK(history.downtime(23) == 3);
  history.suspected(24, "rank 2 is the likely cause");
  history.round_began(25, round_layout(1, 4));
  CHECK(history.downtime(100) == 5);
  CHECK(history.verdict() == "round 1 runs with 4 ranks on 1 node");
  history.changed(110, "node 1 is gone");
  CHECK(history.verdict() == "node 1 is gone");
  CHECK(history.downtime(111) == 6);
  history.round_began(112, round_layout(2, 3));
  history.ended(120, "succeeded", "the job has succeeded", true);
  history.warned(120.5, "the disk of the log files has stalled");  // too late
  CHECK(history.verdict() == "the job has succeeded");
  CHECK(history.failures() == std::map<std::string, int>{{"exit", 1}});

  const json object = json::parse(history.json(121.0004));
  CHECK(object["well"] == true);
  CHECK(object["seconds"] == 121.0);
  std::string kinds;
  for (const json& one : object["events"]) kinds += one["kind"].get<std::string>() + " ";
  CHECK(kinds == "round failure suspect round change round end ");
  CHECK(object["events"][1]["at"] == 20);
  CHECK(object["events"][1].value("rank", -1) == 1);
}

TEST_CASE("web history: a hang is the verdict until ranks make progress, or the round is over") {
  const std::string lines = "no rank has made progress for 10 min (round 0)\nrank 1 is the cause";
  History history;
  history.round_began(0, round_layout(0, 2));
  history.stalled(600, lines);
  CHECK(history.hangs());
  CHECK(history.verdict() == lines);
  CHECK(json::parse(history.json(601))["well"] == false);
  history.stalled(700, "ranks make progress again");
  CHECK(!history.hangs());
  CHECK(history.verdict() == "round 0 runs with 2 ranks on 1 node");
  history.stalled(800, lines);
  Failure hang = failed_with(124 << 8);
  hang.hung = true;
  history.failed(801, hang, "no rank has made progress");
  CHECK(!history.hangs());
  CHECK(history.downtime(802) == 1);
}

TEST_CASE("web history: a warning is the verdict until it is over, or something else happens") {
  History history;
  history.round_began(0, round_layout(0, 4));
  CHECK(json::parse(history.json(1))["state"] == "running");
  history.warned(5, "rank 2 is stopped by SIGSTOP");
  CHECK(history.verdict() == "rank 2 is stopped by SIGSTOP");
  CHECK(json::parse(history.json(6))["well"] == false);
  CHECK(json::parse(history.json(6))["state"] == "warning");
  history.recovered(7, "rank 2 continues");
  CHECK(history.verdict() == "round 0 runs with 4 ranks on 1 node");
  history.warned(8, "ranks 0-2 ended with exit code 0, the first 5 s ago; rank 3 still runs");
  history.failed(9, failed_with(1 << 8), "rank 3 failed first: exit 1");
  history.recovered(9.5, "the master is reachable again after 3 s");
  CHECK(history.verdict() == "rank 3 failed first: exit 1");  // no round runs
  std::string kinds;
  const json object = json::parse(history.json(10));
  for (const json& one : object["events"]) kinds += one["kind"].get<std::string>() + " ";
  CHECK(kinds == "round warning progress warning failure progress ");
}

TEST_CASE("web history: the end of the job is the last verdict") {
  History history;
  history.round_began(0, round_layout(0, 4));
  history.stopping(5, "stopping 4 workers (SIGINT)");
  history.recovered(5.5, "the master is reachable again after 3 s");
  CHECK(history.verdict() == "stopping 4 workers (SIGINT)");
  history.ended(6, "stopped", "this node's ddprun was stopped by SIGINT", false);
  history.recovered(7, "rank 2 continues");
  const json object = json::parse(history.json(8));
  CHECK(object["verdict"] == "this node's ddprun was stopped by SIGINT");
  CHECK(object["well"] == false);
  CHECK(object["state"] == "stopped");
  CHECK(object["events"].size() == 4);
}

TEST_CASE("web history: a word says why a round failed") {
  CHECK(cause_of(failed_with(1 << 8)) == "exit");
  CHECK(cause_of(failed_with(SIGSEGV)) == "signal");
  CHECK(cause_of(failed_with(127 << 8, 0)) == "not_started");
  CHECK(cause_of(failed_with(SIGKILL, 0)) == "node_lost");
  Failure killed = failed_with(SIGKILL);
  killed.cause = "out of memory: the kernel killed it";
  CHECK(cause_of(killed) == "out_of_memory");
  killed.hung = true;
  CHECK(cause_of(killed) == "hang");
}

TEST_CASE("web history: it is bounded, and one line of JSON, whatever a worker wrote") {
  History history;
  for (int i = 0; i < 500; ++i) {
    history.failed(i, failed_with(1 << 8), "bad \xff\n\x1b[2J" + std::string(100'000, 'x'));
  }
  const std::string text = history.json(500);
  CHECK(text.size() < 100'000);
  CHECK(text.find('\n') == std::string::npos);
  CHECK(json::parse(text)["events"].size() == 50);
  CHECK(history.failures().at("exit") == 500);
}
