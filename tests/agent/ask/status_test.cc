// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/status.h"

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "agent/ask/status_text.h"
#include "tests/catch.h"
#include "tests/contains.h"
#include "tests/must.h"
#include "tests/paths.h"

using namespace ddprun::agent::ask;
using ddprun::must;
using ddprun::tests::contains;
using ddprun::tests::source_path;

namespace {

JobStatus sample_status(int nodes, int local_size) {
  JobStatus status;
  status.job = "train-7";
  status.master = "gpu-000:29400";
  status.session = "0123abcd";
  status.program = "python3 train.py --lr 1";
  status.state = "running";
  status.round = 2;
  status.restarts = 1;
  status.max_restarts = 3;
  status.world_size = nodes * local_size;
  status.node_count = nodes;
  status.seconds = 11'520;
  for (int i = 0; i < nodes; ++i) {
    NodeStatus& node = status.nodes.emplace_back();
    node.host = "gpu-" + std::to_string(i);
    node.node_rank = i;
    node.pid = 4000 + i;
    node.state = "running";
    node.first_rank = i * local_size;
    node.local_size = local_size;
    for (int rank = 0; rank < local_size; ++rank) {
      node.ranks.push_back({node.first_rank + rank, 5000 + rank, "running", "futex", 600.5, 590.25,
                            1'288'490'189, 3.5});
    }
  }
  return status;
}

/// Whether `value` has all fields that `schema` requires, no unknown ones, and the right types.
bool is_valid(const nlohmann::json& value, const nlohmann::json& schema) {
  const std::string type = schema.at("type");
  if (type == "array") {
    return value.is_array() && std::ranges::all_of(value, [&schema](const nlohmann::json& item) {
             return is_valid(item, schema.at("items"));
           });
  }
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  const nlohmann::json& properties = schema.at("properties");
  return value.is_object() &&
         std::ranges::all_of(schema.at("required"),
                             [&](const auto& name) { return value.contains(name); }) &&
         std::ranges::all_of(value.items(), [&](const auto& field) {
           return properties.contains(field.key()) &&
                  is_valid(field.value(), properties.at(field.key()));
         });
}

std::vector<std::string> status_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    lines.push_back(text.substr(at, text.find('\n', at) - at));
  }
  return lines;
}

}  // namespace

TEST_CASE("status: JSON keeps all of it") {
  JobStatus status = sample_status(2, 2);
  status.nodes[0].ranks[1].output_age.reset();
  status.nodes[0].ranks[1].heartbeat_age = 1.25;
  status.nodes[0].ranks[1].progress = "step 12";
  status.nodes[0].ranks[0].gpu = GpuStatus{.names = "0,1"};
  status.nodes[0].ranks[1].gpu = GpuStatus{"2", 61, 80, 0.97, 512.5, "too hot"};
  status.nodes[1].ranks.clear();
  status.nodes[1].problem = "no answer for 12 s";
  const std::string json = to_json(status);
  CHECK(to_json(must(status_in(json))) == json);
  const JobStatus read = must(status_in(json));
  CHECK(read.nodes[0].ranks[0].memory == 1'288'490'189);
  CHECK(read.nodes[0].ranks[0].output_age == 3.5);
  CHECK(!read.nodes[0].ranks[1].output_age);
  CHECK(!read.nodes[0].ranks[0].heartbeat_age);
  CHECK(read.nodes[0].ranks[1].heartbeat_age == 1.25);
  CHECK(read.nodes[0].ranks[1].progress == "step 12");
  CHECK(read.nodes[0].ranks[0].gpu->names == "0,1");
  const GpuStatus gpu = *read.nodes[0].ranks[1].gpu;
  CHECK((gpu.memory == 61 && gpu.memory_total == 80 && gpu.busy == 0.97 && gpu.watts == 512.5));
  CHECK(gpu.slowed == "too hot");
  CHECK(read.nodes[1].problem == "no answer for 12 s");
  CHECK(std::ranges::none_of(json, [](unsigned char c) { return c < 0x20; }));
}

TEST_CASE("status: its JSON has exactly the fields of the schema in the docs") {
  JobStatus status = sample_status(2, 2);
  status.nodes[1].problem = "no answer for 12 s";
  RankStatus& rank = status.nodes[0].ranks[0];
  rank.heartbeat_age = 1.25;
  rank.progress = "step 12";
  rank.collectives = 121;
  status.nodes[1].releases = {{"PyTorch 2.15.0", {2, 3}}};
  status.slow = SlowRank{.rank = 3, .waited = 19.25, .seconds = 20, .last = 48, .calls = 50};
  rank.gpu = GpuStatus{"1", 61ull << 30, 80ull << 30, 0.97, 512.5, "too hot"};
  std::ifstream file(source_path("docs/status.schema.json"));
  const auto schema = nlohmann::json::parse(file);
  auto json = nlohmann::json::parse(to_json(status));
  CHECK(is_valid(json, schema));
  const auto& node = schema["properties"]["nodes"]["items"];
  CHECK(json.size() == schema["properties"].size());
  CHECK(json["nodes"][1].size() == node["properties"].size());
  CHECK(json["nodes"][0]["ranks"][0].size() ==
        node["properties"]["ranks"]["items"]["properties"].size());
  json["nodes"][0]["ranks"][0].erase("pid");
  CHECK_FALSE(is_valid(json, schema));
}

TEST_CASE("status: JSON keeps the arrivals of a node, and refuses arrivals that make no sense") {
  JobStatus status = sample_status(1, 2);
  status.nodes[0].arrivals =
      TimedArrivals{.clock = {1'000'000, 1'000'500},
                    .groups = {{.group = 7,
                                .members = 4,
                                .ranks = {2, 3},
                                .first = 12,
                                .calls = {{.rank = 3, .at = 500, .before = 100},
                                          {.rank = 2, .at = 900, .before = {}}}}}};
  const std::string json = to_json(status);
  CHECK(contains(json, R"("calls":[[3,0,400],[2,400]])"));
  CHECK(to_json(must(status_in(json))) == json);
  for (const char* wrong : {"[]", "[3]", "[3,0,501]", "[-1,0]", "[3,-1]", "[3,0,0,0]", "[3,1e9]",
                            "[3,\"0\"]", "[3,9007199254740992]", "[2147483648,0]", "7"}) {
    std::string other = json;
    const std::string call = "[3,0,400]";
    other.replace(other.find(call), call.size(), wrong);
    INFO(other);
    CHECK(!status_in(other));
  }
}

TEST_CASE("status: releases that differ have a line") {
  JobStatus status = sample_status(2, 2);
  status.nodes[0].releases = {{"PyTorch 2.15.0", {0, 1}}};
  CHECK(status_lines(status_text(status, {})).size() == 6);
  status.nodes[1].releases = {{"PyTorch 2.12.0", {2, 3}}};
  CHECK(to_json(must(status_in(to_json(status)))) == to_json(status));
  const auto lines = status_lines(status_text(status, {.width = 200}));
  REQUIRE(lines.size() == 7);
  CHECK(lines[1] ==
        "ranks 2, 3 (gpu-1) have PyTorch 2.12.0, ranks 0, 1 (gpu-0) have PyTorch 2.15.0");
}

TEST_CASE("status: a slow rank has a line, and is the first") {
  JobStatus status = sample_status(2, 2);
  status.slow = SlowRank{.rank = 3, .waited = 19.2, .seconds = 20.4, .last = 48, .calls = 50};
  status.waiting = "something";
  const auto lines = status_lines(status_text(status, {.width = 200}));
  REQUIRE(lines.size() == 8);
  CHECK(lines[2] ==
        "rank 3 (gpu-1) is slow: the others waited 19.2 s of 20.4 s for it, the last in 48 of 50 "
        "collectives");
  CHECK(lines[4].starts_with("3 "));
  status.nodes.pop_back();
  CHECK(contains(status_text(status, {}), "\nrank 3 is slow: "));
}

TEST_CASE("status: a rank takes some 120 bytes") {
  CHECK(to_json(sample_status(1, 1000)).size() < 150'000);
}

TEST_CASE("status: other JSON is refused") {
  const std::string json = to_json(sample_status(1, 1));
  CHECK(!status_in(""));
  CHECK(!status_in("[]"));
  CHECK(!status_in(json.substr(0, json.size() - 1)));
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"rank\":0", "\"rank\":-1"},
           {"\"pid\":5000", "\"pid\":1e99"},
           {"\"seconds\":600.5", "\"seconds\":-1"},
           {"\"state\":\"running\"", "\"state\":7"},
           {"\"how\":\"futex\"", "\"how\":{\"a\":[[[[[[[[1]]]]]]]]}"},
           {"\"ranks\":[", "\"ranks\":[7,"}}) {
    std::string wrong = json;
    const size_t at = wrong.find(from);
    REQUIRE(at != wrong.npos);
    wrong.replace(at, from.size(), to);
    INFO(wrong);
    CHECK(!status_in(wrong));
  }
}

TEST_CASE("status: the words of others can neither control a terminal nor begin a line") {
  std::string json = to_json(sample_status(1, 1));
  const std::string host = "\"host\":\"gpu-0\"";
  json.replace(json.find(host), host.size(),
               R"("host":"a\u001b[2J\nb)" + std::string(2000, 'x') + '"');
  const JobStatus status = must(status_in(json));
  CHECK(status.nodes[0].host.starts_with("a\\x1b[2J bxx"));
  CHECK(status.nodes[0].host.size() < 600);
}

TEST_CASE("status: the text of one rank has a heading and one row") {
  const auto lines = status_lines(status_text(sample_status(1, 1), {}));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        "job train-7: running for 3 h 12 min, 1 rank on 1 node, round 2, 1 of 3 restar...");
  CHECK(lines[1] == "RANK  HOST   STATE            TIME    CPU   MEMORY   OUTPUT");
  CHECK(lines[2] == "0     gpu-0  running (futex)  10 min  98 %  1.2 GiB  3.5 s ago");
}

TEST_CASE("status: ranks that send heartbeats show their progress") {
  JobStatus status = sample_status(1, 2);
  status.nodes[0].ranks[1].progress = "step 12";
  const auto lines = status_lines(status_text(status, {}));
  REQUIRE(lines.size() == 4);
  CHECK(lines[1].ends_with("MEMORY   OUTPUT     PROGRESS"));
  CHECK(lines[2].ends_with("1.2 GiB  3.5 s ago"));
  CHECK(lines[3].ends_with("1.2 GiB  3.5 s ago  step 12"));
}

TEST_CASE("status: ranks show the use of GPUs that the driver knows") {
  JobStatus status = sample_status(1, 3);
  status.nodes[0].ranks[0].gpu = GpuStatus{.names = "0"};
  status.nodes[0].ranks[1].gpu = GpuStatus{"1", 61ull << 30, 80ull << 30, 0.97, 512.5, ""};
  status.nodes[0].ranks[2].gpu = GpuStatus{.names = "MIG-1", .memory = 0, .memory_total = 10 << 20};
  const auto lines = status_lines(status_text(status, {}));
  REQUIRE(lines.size() == 5);
  CHECK(lines[1].ends_with("MEMORY   OUTPUT     GPU"));
  CHECK(lines[2].ends_with("1.2 GiB  3.5 s ago"));
  CHECK(lines[3].ends_with("1.2 GiB  3.5 s ago  97 %, 61 GiB"));
  CHECK(lines[4].ends_with("1.2 GiB  3.5 s ago  0 B"));
}

TEST_CASE("status: the worst of eight ranks comes first") {
  JobStatus status = sample_status(2, 4);
  status.nodes[0].ranks[2].state = "ended";
  status.nodes[0].ranks[2].how = "exit 0";
  status.nodes[1].ranks[1].state = "stopped";
  status.nodes[1].ranks[3].state = "failed";
  status.nodes[1].ranks[3].how = "exit 3";
  status.nodes[1].ranks[0].how = "throttled: its CPU quota is 0.2 CPUs";
  const auto lines = status_lines(status_text(status, {}));
  REQUIRE(lines.size() == 10);
  CHECK(lines[2].starts_with("7     gpu-1  failed (exit 3)"));
  CHECK(lines[3].starts_with("5     gpu-1  stopped (futex)"));
  CHECK(lines[4].starts_with("2     gpu-0  ended (exit 0)"));
  CHECK(lines[5].starts_with("4     gpu-1  running (throttled: its CPU quota is 0.2 CPUs)"));
  CHECK(lines[6].starts_with("0     gpu-0  running"));
  CHECK(lines[9].starts_with("6     gpu-1  running"));
}

TEST_CASE("status: a thousand ranks fit a terminal of any size") {
  JobStatus status = sample_status(125, 8);
  status.nodes[100].ranks.clear();
  status.nodes[100].problem = "no answer for 12 s";
  status.nodes[7].ranks[0].state = "failed";
  status.nodes[7].ranks[0].how = std::string(400, 'x');
  status.waiting = std::string(300, 'w');
  for (const size_t rows : {5, 10, 24, 50}) {
    for (const size_t width : {30, 80, 200}) {
      const auto lines = status_lines(status_text(status, {rows, width}));
      CHECK(lines.size() == std::max<size_t>(rows, 5));
      for (const std::string& line : lines) CHECK(line.size() <= width);
      CHECK(lines[3].starts_with("56"));
      CHECK(contains(lines.back(), " more: "));
    }
  }
  const auto all = status_lines(status_text(status, {SIZE_MAX, 1000}));
  CHECK(all.size() == 3 + 992 + 1);
  CHECK(all[4].starts_with("800-807  gpu-100  no answer for 12 s"));
}

TEST_CASE("status: if there are colours, ranks with a problem have one") {
  JobStatus status = sample_status(1, 4);
  status.nodes[0].ranks[1].state = "ended";
  status.nodes[0].ranks[2].state = "stopped";
  status.nodes[0].ranks[3].state = "failed";
  const auto plain = status_lines(status_text(status, {}));
  StatusView view;
  view.coloured = true;
  const auto lines = status_lines(status_text(status, view));
  REQUIRE(lines.size() == 6);
  CHECK(lines[1] == plain[1]);
  CHECK(lines[2] == "\x1b[31m" + plain[2] + "\x1b[0m");  // failed
  CHECK(lines[3] == "\x1b[31m" + plain[3] + "\x1b[0m");  // stopped
  CHECK(lines[4] == "\x1b[33m" + plain[4] + "\x1b[0m");  // ended while another one runs
  CHECK(lines[5] == plain[5]);
}

TEST_CASE("status: CPU use is counted between two looks") {
  const JobStatus before = sample_status(1, 1);
  JobStatus now = before;
  now.nodes[0].ranks[0].seconds += 2;
  now.nodes[0].ranks[0].cpu_seconds += 1;
  CHECK(contains(status_text(now, {24, 80, &before}), " 50 % "));
  now.nodes[0].ranks[0].pid++;  // another process: counted since it began
  CHECK(contains(status_text(now, {24, 80, &before}), " 98 % "));
}
