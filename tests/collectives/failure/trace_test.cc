// SPDX-License-Identifier: Apache-2.0
#include "ddp/trace.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "ddp/process_group.h"
#include "tests/catch.h"
#include "tests/collectives/folder.h"
#include "tests/collectives/ranks.h"
#include "tests/collectives/read_json.h"

using namespace ddprun::tests;
using ddp::ProcessGroup;
using nlohmann::json;

namespace {

/// The calls of a group of so many ranks.
json calls_of(const json& trace, std::size_t size) {
  json found = json::array();
  for (const json& group : trace["groups"]) {
    if (group["ranks"].size() != size) continue;
    for (const json& call : trace["calls"]) {
      if (call["group"] == group["group"]) found.push_back(call);
    }
  }
  return found;
}

bool is_between_two(const json& call) {
  return call.contains("peer");
}

/// Makes calls of several kinds, in two groups; then rank 1 makes another call than the others.
void end_differently(ProcessGroup& group) {
  auto part = group.split(group.rank() % 2);
  std::vector<float> data(1000);
  group.all_reduce(data, ddp::ReduceOp::max);
  part->barrier();
  const ddp::Work work = group.ibroadcast(data, 1);
  work.wait();
  if (group.rank() == 0) group.send(data, 1, 5);
  if (group.rank() == 1) group.recv(data, 0, 5);
  if (group.rank() == 1) return group.barrier();
  group.all_reduce(data);
}

}  // namespace

TEST_CASE("when a group fails, every rank writes its calls, with matching numbers") {
  const Folder folder;
  const auto into = (folder.path / "made" / "for-it").string();
  const auto ended = run_ranks(4, rank_command([](ProcessGroup& group) { end_differently(group); }),
                               {{"DDP_TRACE_DIR", into}});
  std::vector<json> traces;
  for (int rank = 0; rank < 4; ++rank) {
    const std::string& output = ended[static_cast<std::size_t>(rank)].output;
    INFO(output);
    const json& trace = traces.emplace_back(
        read_json(std::filesystem::path(into) / ("rank_" + std::to_string(rank) + ".json")));
    CHECK(trace["reason"].get<std::string>() + "\n" == output);
    CHECK(calls_of(trace, 2).size() == 1);
    CHECK(calls_of(trace, 2)[0]["operation"] == "barrier");
    CHECK(trace["groups"][1]["ranks"] == json({rank % 2, rank % 2 + 2}));

    json common = calls_of(trace, 4);
    std::erase_if(common.get_ref<json::array_t&>(), is_between_two);
    REQUIRE(common.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(common[i]["number"] == i + 1);
      CHECK(common[i]["state"] == (i == 3 ? "failed" : "done"));
      CHECK(common[i]["begun"] <= common[i]["ended"]);
      CHECK(common[i]["ended"] <= trace["written"]);
    }
    CHECK(common[1]["operation"] == "all_reduce");
    CHECK(common[1]["reduce"] == "max");
    CHECK(common[1]["type"] == "float32");
    CHECK(common[1]["count"] == 1000);
    CHECK(common[2]["operation"] == "broadcast");
    CHECK(common[2]["root"] == 1);
    CHECK(common[3]["operation"] == (rank == 1 ? "barrier" : "all_reduce"));
  }
  for (const int rank : {0, 1}) {
    json messages = calls_of(traces[static_cast<std::size_t>(rank)], 4);
    std::erase_if(messages.get_ref<json::array_t&>(),
                  [](const json& call) { return !is_between_two(call); });
    REQUIRE(messages.size() == 1);
    CHECK(messages[0]["operation"] == (rank == 0 ? "send" : "recv"));
    CHECK(messages[0]["number"] == 1);
    CHECK(messages[0]["peer"] == 1 - rank);
    CHECK(messages[0]["tag"] == 5);
    CHECK(messages[0]["count"] == 1000);
  }
}

TEST_CASE("a begun call that nobody looked at is written as done once a later one is") {
  const Folder folder;
  const auto ended = run_ranks(
      2,
      [](ProcessGroup& group, const std::string& into) {
        std::vector<float> data(1000);
        const ddp::Work work = group.iall_reduce(data);
        group.barrier();
        ddp::write_trace(into + "/" + std::to_string(group.rank()));
      },
      folder.path.string());
  for (int rank = 0; rank < 2; ++rank) {
    INFO(ended[static_cast<std::size_t>(rank)].output);
    const json calls = calls_of(read_json(folder.path / std::to_string(rank)), 2);
    REQUIRE(calls.size() == 2);
    CHECK(calls[0]["state"] == "done");
    CHECK(calls[1]["state"] == "done");
  }
}

// Makes more calls than a trace keeps.
TEST_CASE("write_trace() writes the last 2048 calls") {
  const Folder folder;
  const auto file = folder.path / "trace.json";
  const Ended ended = run_ranks(
                          1,
                          [](ProcessGroup& group, const std::string& file_name) {
                            for (int i = 0; i < 3000; ++i) group.barrier();
                            ddp::write_trace(file_name);
                            try {
                              ddp::write_trace(file_name + "/not-a-folder");
                              wrong("a trace was written into a file");
                            } catch (const ddp::Error& error) {
                              std::printf("%s\n", error.what());
                            }
                            group.barrier();
                          },
                          file.string())
                          .front();
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK(ended.output.find("cannot write the trace " + file.string() + "/not-a-folder: Not a dir") !=
        std::string::npos);
  const json trace = read_json(file);
  CHECK(trace["reason"] == "asked for");
  REQUIRE(trace["calls"].size() == 2048);
  for (std::size_t i = 0; i < 2048; ++i) CHECK(trace["calls"][i]["number"] == 3000 - 2047 + i);
}

TEST_CASE("a trace is not written through another user's link") {
  const Folder folder;
  const auto file = folder.path / "trace.json";
  const Ended ended = run_ranks(
                          1,
                          [](ProcessGroup&, const std::string& file_name) {
                            const std::string fresh =
                                file_name + "." + std::to_string(getpid()) + ".tmp";
                            std::filesystem::create_symlink(file_name + ".elsewhere", fresh);
                            ddp::write_trace(file_name);
                          },
                          file.string())
                          .front();
  INFO(ended.output);
  CHECK(ended.code == 0);
  CHECK_FALSE(std::filesystem::exists(file.string() + ".elsewhere"));
  CHECK(read_json(file)["reason"] == "asked for");
}

TEST_CASE("a trace that cannot be written does not hide the failure") {
  const auto ended = run_ranks(4, rank_command([](ProcessGroup& group) { end_differently(group); }),
                               {{"DDP_TRACE_DIR", "/dev/null"}});
  for (const Ended& rank : ended) {
    INFO(rank.output);
    CHECK(rank.code == failed(ddp::ErrorKind::mismatch));
    CHECK(rank.output.find("cannot write the trace /dev/null/rank_") != std::string::npos);
  }
}
