// SPDX-License-Identifier: Apache-2.0
#include "agent/ask/status.h"

#include <algorithm>
#include <climits>
#include <cstdint>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "rendezvous/wire/fields.h"

namespace ddprun::agent::ask {
namespace {

using rendezvous::Fields;

constexpr size_t kMaxNodes = 65'536;                         // as many as a job can have
constexpr size_t kMaxStatusText = 512;                       // bytes of one text
constexpr std::uint64_t kMostTime = std::uint64_t{1} << 53;  // microseconds

Json text_of(const std::string& text) {
  return printable(cut(text, kMaxStatusText));
}

void add_gpu(Json& object, const GpuStatus& gpu) {
  object["gpu"] = text_of(gpu.names);
  if (gpu.memory_total == 0) return;
  object["gpu_memory"] = gpu.memory;
  object["gpu_memory_total"] = gpu.memory_total;
  if (gpu.busy) object["gpu_busy"] = whole_milliseconds(*gpu.busy);
  if (gpu.watts) object["gpu_watts"] = whole_milliseconds(*gpu.watts);
  if (!gpu.slowed.empty()) object["gpu_slowed"] = text_of(gpu.slowed);
}

Json json_of(const RankStatus& rank) {
  Json object = {{"rank", rank.rank},
                 {"pid", rank.pid},
                 {"state", rank.state},
                 {"how", text_of(rank.how)},
                 {"seconds", whole_milliseconds(rank.seconds)},
                 {"cpu_seconds", whole_milliseconds(rank.cpu_seconds)},
                 {"memory", rank.memory}};
  if (rank.output_age) object["output_age"] = whole_milliseconds(*rank.output_age);
  if (rank.heartbeat_age) object["heartbeat_age"] = whole_milliseconds(*rank.heartbeat_age);
  if (!rank.progress.empty()) object["progress"] = text_of(rank.progress);
  if (rank.collectives) object["collectives"] = *rank.collectives;
  if (rank.gpu) add_gpu(object, *rank.gpu);
  return object;
}

/// A call is [rank, time], or [rank, time, wait]: from the call before, and for the rank.
Json json_of(const GroupArrivals& group) {
  Json calls = Json::array();
  const std::int64_t from = group.calls.empty() ? 0 : group.calls.front().at;
  std::int64_t before = from;
  for (const LastArrival& last : group.calls) {
    Json& call = calls.emplace_back(Json{last.rank, last.at - std::exchange(before, last.at)});
    if (last.before) call.push_back(last.at - *last.before);
  }
  return {{"group", group.group}, {"members", group.members},
          {"ranks", group.ranks}, {"first", group.first},
          {"from", from},         {"calls", std::move(calls)}};
}

Json json_of(const TimedArrivals& arrivals) {
  Json groups = Json::array();
  for (const GroupArrivals& group : arrivals.groups) groups.push_back(json_of(group));
  return {{"asked", arrivals.clock.begin},
          {"answered", arrivals.clock.end},
          {"groups", std::move(groups)}};
}

Json json_of(const SlowRank& slow) {
  return {{"rank", slow.rank},
          {"waited", whole_milliseconds(slow.waited)},
          {"seconds", whole_milliseconds(slow.seconds)},
          {"last", slow.last},
          {"calls", slow.calls}};
}

Json json_of(const NodeStatus& node) {
  Json object = {{"host", text_of(node.host)},
                 {"node_rank", node.node_rank},
                 {"pid", node.pid},
                 {"state", node.state},
                 {"contact", whole_milliseconds(node.contact)},
                 {"first_rank", node.first_rank},
                 {"local_size", node.local_size},
                 {"ranks", Json::array()}};
  if (!node.problem.empty()) object["problem"] = text_of(node.problem);
  for (const RankStatus& rank : node.ranks) object["ranks"].push_back(json_of(rank));
  for (const auto& [release, ranks] : node.releases) {
    object["releases"].push_back({{"release", text_of(release)}, {"ranks", ranks}});
  }
  if (node.arrivals) object["arrivals"] = json_of(*node.arrivals);
  return object;
}

/// A text of another program as one line that is safe to write to a terminal.
std::string safe_text(Fields& fields, const char* name) {
  std::string text = printable(cut(fields.text(name), kMaxStatusText));
  std::ranges::replace_if(text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return text;
}

GpuStatus gpu_in(Fields& fields) {
  GpuStatus gpu;
  gpu.names = safe_text(fields, "gpu");
  if (fields.has("gpu_memory")) gpu.memory = fields.count("gpu_memory");
  if (fields.has("gpu_memory_total")) gpu.memory_total = fields.count("gpu_memory_total");
  if (fields.has("gpu_busy")) gpu.busy = fields.seconds("gpu_busy");
  if (fields.has("gpu_watts")) gpu.watts = fields.seconds("gpu_watts");
  if (fields.has("gpu_slowed")) gpu.slowed = safe_text(fields, "gpu_slowed");
  return gpu;
}

RankStatus rank_in(const Json& object, Fields& outer) {
  Fields fields(object);
  RankStatus rank;
  rank.rank = fields.integer("rank", 0, INT_MAX);
  rank.pid = fields.integer("pid", 0, INT_MAX);
  rank.state = safe_text(fields, "state");
  rank.how = safe_text(fields, "how");
  rank.seconds = fields.seconds("seconds");
  rank.cpu_seconds = fields.seconds("cpu_seconds");
  rank.memory = fields.count("memory");
  if (fields.has("output_age")) rank.output_age = fields.seconds("output_age");
  if (fields.has("heartbeat_age")) rank.heartbeat_age = fields.seconds("heartbeat_age");
  if (fields.has("progress")) rank.progress = safe_text(fields, "progress");
  if (fields.has("collectives")) rank.collectives = fields.count("collectives");
  if (fields.has("gpu")) rank.gpu = gpu_in(fields);
  outer.take_error(fields);
  return rank;
}

/// A call that follows one at `before`.
std::optional<LastArrival> call_in(const Json& call, std::int64_t before) {
  const auto is_time = [](const Json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= kMostTime;
  };
  if (!call.is_array() || call.size() < 2 || call.size() > 3) return std::nullopt;
  if (!std::ranges::all_of(call, is_time) || call[0] > INT_MAX) return std::nullopt;
  LastArrival last{
      .rank = call[0].get<int>(), .at = before + call[1].get<std::int64_t>(), .before = {}};
  if (call.size() == 3) last.before = last.at - call[2].get<std::int64_t>();
  if (last.at > static_cast<std::int64_t>(kMostTime) || last.before.value_or(0) < 0)
    return std::nullopt;
  return last;
}

GroupArrivals group_in(const Json& object, Fields& outer) {
  Fields fields(object);
  GroupArrivals group;
  group.group = fields.count("group");
  group.members = fields.integer("members", 0, INT_MAX);
  group.ranks = fields.ranks("ranks", kMaxRanks);
  group.first = fields.count("first");
  auto at = static_cast<std::int64_t>(fields.count("from"));
  for (const Json& each : fields.list("calls", kMostArrivals)) {
    const auto call = call_in(each, at);
    if (!call) fields.refuse("calls");
    group.calls.push_back(call.value_or(LastArrival{}));
    at = group.calls.back().at;
  }
  outer.take_error(fields);
  return group;
}

TimedArrivals arrivals_in(const Json& object, Fields& outer) {
  Fields fields(object);
  TimedArrivals arrivals;
  arrivals.clock.begin = static_cast<std::int64_t>(fields.count("asked"));
  arrivals.clock.end = static_cast<std::int64_t>(fields.count("answered"));
  for (const Json& group : fields.list("groups", kMostArrivalGroups)) {
    arrivals.groups.push_back(group_in(group, fields));
  }
  outer.take_error(fields);
  return arrivals;
}

SlowRank slow_in(const Json& object, Fields& outer) {
  Fields fields(object);
  SlowRank slow;
  slow.rank = fields.integer("rank", 0, INT_MAX);
  slow.waited = fields.seconds("waited");
  slow.seconds = fields.seconds("seconds");
  slow.last = fields.integer("last", 0, INT_MAX);
  slow.calls = fields.integer("calls", 0, INT_MAX);
  outer.take_error(fields);
  return slow;
}

NodeStatus node_in(const Json& object, Fields& outer) {
  Fields fields(object);
  NodeStatus node;
  node.host = safe_text(fields, "host");
  node.node_rank = fields.integer("node_rank", -1, INT_MAX);
  node.pid = fields.integer("pid", 0, INT_MAX);
  node.state = safe_text(fields, "state");
  node.contact = fields.seconds("contact");
  node.first_rank = fields.integer("first_rank", 0, INT_MAX);
  node.local_size = fields.integer("local_size", 0, INT_MAX);
  if (fields.has("problem")) node.problem = safe_text(fields, "problem");
  for (const Json& rank : fields.list("ranks", kMaxRanks)) {
    node.ranks.push_back(rank_in(rank, fields));
  }
  if (fields.has("releases")) {
    for (const Json& each : fields.list("releases", kMaxRanks)) {
      Fields release(each);
      node.releases[safe_text(release, "release")] = release.ranks("ranks", kMaxRanks);
      fields.take_error(release);
    }
  }
  if (fields.has("arrivals")) node.arrivals = arrivals_in(fields.object("arrivals"), fields);
  outer.take_error(fields);
  return node;
}

}  // namespace

std::string to_json(const JobStatus& status) {
  Json object = {{"job", text_of(status.job)},
                 {"master", text_of(status.master)},
                 {"session", text_of(status.session)},
                 {"program", text_of(status.program)},
                 {"state", status.state},
                 {"waiting", text_of(status.waiting)},
                 {"round", status.round},
                 {"restarts", status.restarts},
                 {"max_restarts", status.max_restarts},
                 {"world_size", status.world_size},
                 {"node_count", status.node_count},
                 {"seconds", whole_milliseconds(status.seconds)},
                 {"nodes", Json::array()}};
  for (const NodeStatus& node : status.nodes) object["nodes"].push_back(json_of(node));
  if (status.slow) object["slow"] = json_of(*status.slow);
  return json_text(object);
}

Result<JobStatus> status_in(std::string_view text) {
  const auto object = parse_bounded(text);
  if (!object.is_object()) return Error{Errc::protocol, "it is no JSON object"};
  Fields fields(object);
  JobStatus status;
  status.job = safe_text(fields, "job");
  status.master = safe_text(fields, "master");
  status.session = safe_text(fields, "session");
  status.program = safe_text(fields, "program");
  status.state = safe_text(fields, "state");
  status.waiting = safe_text(fields, "waiting");
  status.round = fields.integer("round", -1, INT_MAX);
  status.restarts = fields.integer("restarts", 0, INT_MAX);
  status.max_restarts = fields.integer("max_restarts", 0, INT_MAX);
  status.world_size = fields.integer("world_size", 0, INT_MAX);
  status.node_count = fields.integer("node_count", 0, INT_MAX);
  status.seconds = fields.seconds("seconds");
  for (const Json& node : fields.list("nodes", kMaxNodes)) {
    status.nodes.push_back(node_in(node, fields));
  }
  if (fields.has("slow")) status.slow = slow_in(fields.object("slow"), fields);
  return fields.or_error(std::move(status));
}

}  // namespace ddprun::agent::ask
