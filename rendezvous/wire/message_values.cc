// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/message_values.h"

#include <algorithm>
#include <climits>
#include <sys/wait.h>
#include <utility>

#include <nlohmann/json.hpp>

namespace ddprun::rendezvous {
namespace {

using nlohmann::json;

constexpr size_t kMaxRanks = 2'048;  // in one list; the first ones if more were stopped
constexpr size_t kMaxVictims = 128;
constexpr size_t kMaxHow = 64;
constexpr size_t kMaxPlaces = 16;
constexpr size_t kMaxPlaceRanks = 1'024;  // of all places of a node
constexpr size_t kMaxCalls = 64;
constexpr size_t kMaxSentence = 256;  // in a join, which has many other fields
constexpr size_t kMaxRole = 256;
constexpr size_t kMaxMaster = 64;
constexpr int kMaxLastRound = INT_MAX / 2;  // later rounds count from there
constexpr int kMaxRestarts = INT_MAX / 2;   // as do restarts

bool continues_character(char byte) {  // in UTF-8
  return (byte & 0xc0) == 0x80;
}

/// Whether this is the status of a failed process; a process that only stopped has not ended.
bool is_failure(int wait_status) {
  return WIFSIGNALED(wait_status) || (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0);
}

std::vector<int> first(std::vector<int> ranks) {
  ranks.resize(std::min(ranks.size(), kMaxRanks));
  return ranks;
}

json places_json(const std::vector<WorkerPlace>& places) {
  json list = json::array();
  size_t ranks = 0;
  for (const WorkerPlace& place : places) {
    ranks += place.ranks.size();
    if (list.size() == kMaxPlaces || ranks > kMaxPlaceRanks) return json::array();  // all or none
    list.push_back({{"ranks", place.ranks},
                    {"kind", static_cast<int>(place.kind)},
                    {"what", place.what.substr(0, kMaxHow)},
                    {"seconds", place.seconds}});
  }
  return list;
}

json calls_json(const std::vector<CallPlace>& calls) {
  json list = json::array();
  size_t ranks = 0;
  for (const CallPlace& call : calls) {
    ranks += call.ranks.size();
    if (list.size() == kMaxCalls || ranks > kMaxPlaceRanks) return json::array();  // all or none
    list.push_back({{"group", call.group},
                    {"begun", call.begun},
                    {"open", call.open},
                    {"shown", call.shown.substr(0, kMaxHow)},
                    {"ranks", call.ranks}});
  }
  return list;
}

std::vector<CallPlace> calls_in(Fields& outer) {
  std::vector<CallPlace> calls;
  if (!outer.has("calls")) return calls;
  for (const json& element : outer.list("calls", kMaxCalls)) {
    Fields fields(element);
    CallPlace& call = calls.emplace_back();
    call.group = fields.count("group");
    call.begun = fields.count("begun");
    call.open = fields.count("open");
    call.shown = fields.text("shown");
    call.ranks = fields.ranks("ranks", kMaxPlaceRanks);
    outer.take_error(fields);
  }
  return calls;
}

std::vector<WorkerPlace> places_in(Fields& outer) {
  std::vector<WorkerPlace> places;
  for (const json& element : outer.list("places", kMaxPlaces)) {
    Fields fields(element);
    WorkerPlace& place = places.emplace_back();
    place.ranks = fields.ranks("ranks", kMaxPlaceRanks);
    place.kind = static_cast<WorkerPlace::Kind>(
        fields.integer("kind", 0, static_cast<int>(WorkerPlace::Kind::stopped)));
    place.what = fields.text("what");
    place.seconds = fields.seconds("seconds");
    outer.take_error(fields);
  }
  return places;
}

RolePlace role_place_in(Fields& fields, const Layout& layout) {
  RolePlace role;
  role.world_size = fields.integer("role_world_size", layout.local_size, layout.world_size);
  role.first_rank = fields.integer("role_first_rank", 0, role.world_size - layout.local_size);
  return role;
}

}  // namespace

std::string tail(const std::string& text) {
  if (text.size() <= kMaxText) return text;
  size_t begin = text.size() - kMaxText;
  for (int i = 0; i < 3 && continues_character(text[begin]); ++i) ++begin;
  return text.substr(begin);
}

json json_of(const Failure& failure) {
  json object = {{"rank", failure.rank},
                 {"wait_status", failure.wait_status},
                 {"pid", failure.pid},
                 {"seconds", failure.seconds},
                 {"host", tail(failure.host)},
                 {"cause", tail(failure.cause)},
                 {"last_words", tail(failure.stderr_tail)},
                 {"exception", tail(failure.exception)},
                 {"traceback", tail(failure.traceback)}};
  if (failure.hung) object["hung"] = true;
  if (!failure.log_folder.empty()) object["log_folder"] = tail(failure.log_folder);
  return object;
}

Failure failure_in(Fields& outer, const char* name) {
  Fields fields(outer.object(name));
  Failure failure;
  failure.rank = fields.integer("rank", 0, INT_MAX);
  failure.wait_status = fields.integer("wait_status", 1, 0xffff);
  if (!is_failure(failure.wait_status)) fields.refuse("wait_status");
  failure.pid = fields.integer("pid", 0, INT_MAX);
  failure.seconds = fields.seconds("seconds");
  failure.host = fields.text("host");
  failure.cause = fields.text("cause");
  failure.stderr_tail = fields.text("last_words");
  failure.exception = fields.text("exception");
  failure.traceback = fields.text("traceback");
  failure.hung = fields.has("hung") && fields.boolean("hung");
  if (fields.has("log_folder")) failure.log_folder = fields.text("log_folder");
  outer.take_error(fields);
  return failure;
}

json json_of(const WorkerExits& worker_exits) {
  json victims = json::array();
  for (const Victim& victim : worker_exits.victims) {
    if (victims.size() == kMaxVictims) break;
    victims.push_back({{"rank", victim.rank},
                       {"how", victim.how.substr(0, kMaxHow)},
                       {"consequence", victim.consequence}});
  }
  json object = {
      {"victims", std::move(victims)},        {"stopped", first(worker_exits.stopped)},
      {"killed", first(worker_exits.killed)}, {"signal", worker_exits.signal.substr(0, kMaxHow)},
      {"seconds", worker_exits.seconds},      {"places", places_json(worker_exits.places)}};
  if (!worker_exits.calls.empty()) object["calls"] = calls_json(worker_exits.calls);
  return object;
}

WorkerExits worker_exits_in(Fields& outer, const char* name) {
  Fields fields(outer.object(name));
  WorkerExits worker_exits;
  for (const json& element : fields.list("victims", kMaxVictims)) {
    Fields victim(element);
    worker_exits.victims.push_back(
        {victim.integer("rank", 0, INT_MAX), victim.text("how"), victim.boolean("consequence")});
    fields.take_error(victim);
  }
  worker_exits.stopped = fields.ranks("stopped", kMaxRanks);
  worker_exits.killed = fields.ranks("killed", kMaxRanks);
  worker_exits.signal = fields.text("signal");
  worker_exits.seconds = fields.seconds("seconds");
  worker_exits.places = places_in(fields);
  worker_exits.calls = calls_in(fields);
  outer.take_error(fields);
  return worker_exits;
}

json json_of(const NodeProgress& progress) {
  json object = {{"round", progress.round},
                 {"quiet", progress.quiet},
                 {"seconds", progress.seconds},
                 {"places", places_json(progress.places)}};
  if (!progress.calls.empty()) object["calls"] = calls_json(progress.calls);
  return object;
}

NodeProgress node_progress_in(Fields& outer, const char* name) {
  Fields fields(outer.object(name));
  NodeProgress progress;
  progress.round = fields.integer("round", 0, INT_MAX);
  progress.quiet = fields.boolean("quiet");
  progress.seconds = fields.seconds("seconds");
  progress.places = places_in(fields);
  progress.calls = calls_in(fields);
  outer.take_error(fields);
  return progress;
}

json json_of(const JoinRequest& request) {
  json object = {{"local_size", request.local_size},
                 {"host", tail(request.host)},
                 {"is_host", request.is_host},
                 {"hosting", request.hosting},
                 {"store_port", request.store_port},
                 {"cannot_run", request.cannot_run.substr(0, kMaxSentence)},
                 {"command", request.command.substr(0, kMaxSentence)},
                 {"command_hash", request.command_hash},
                 {"last_round", request.last_round},
                 {"last_master", request.last_master},
                 {"last_node_rank", request.last_node_rank},
                 {"last_guests", request.last_guests},
                 {"last_restarts", request.last_restarts},
                 {"restarts", request.restarts},
                 {"aftermath", json_of(request.worker_exits)}};
  if (request.node_rank) object["node_rank"] = *request.node_rank;
  if (!request.role.empty()) object["role"] = request.role;
  if (request.last_hosted) object["last_hosted"] = true;
  if (request.unreported_failure)
    object["unreported_failure"] = json_of(*request.unreported_failure);
  return object;
}

JoinRequest join_request_in(Fields& fields) {
  JoinRequest request;
  request.local_size = fields.integer("local_size", 1, 65'536);
  if (fields.has("node_rank")) request.node_rank = fields.integer("node_rank", 0, INT_MAX);
  request.host = fields.text("host");
  request.is_host = fields.boolean("is_host");
  request.hosting = fields.boolean("hosting");
  request.store_port = fields.integer("store_port", 0, 65'535);
  request.cannot_run = fields.text("cannot_run");
  request.command = fields.text("command");
  request.command_hash = fields.count("command_hash");
  if (fields.has("role")) request.role = fields.text("role", kMaxRole);
  request.last_round = fields.integer("last_round", -1, kMaxLastRound);
  request.last_master = fields.text("last_master");
  if (request.last_master.size() > kMaxMaster) fields.refuse("last_master");
  request.last_node_rank = fields.integer("last_node_rank", -1, INT_MAX);
  request.last_guests = fields.integer("last_guests", 0, INT_MAX);
  request.last_hosted = fields.has("last_hosted") && fields.boolean("last_hosted");
  request.last_restarts = fields.integer("last_restarts", 0, kMaxRestarts);
  request.restarts = fields.integer("restarts", request.last_restarts, kMaxRestarts);
  if (fields.has("unreported_failure")) {
    request.unreported_failure = failure_in(fields, "unreported_failure");
  }
  request.worker_exits = worker_exits_in(fields, "aftermath");
  return request;
}

json json_of(const Layout& layout) {
  json object = {{"round", layout.round},           {"restarts", layout.restarts},
                 {"node_rank", layout.node_rank},   {"node_count", layout.node_count},
                 {"first_rank", layout.first_rank}, {"local_size", layout.local_size},
                 {"world_size", layout.world_size}, {"guests", layout.guests},
                 {"store_port", layout.store_port}, {"store_host", layout.store_host}};
  if (layout.role) {
    object["role_first_rank"] = layout.role->first_rank;
    object["role_world_size"] = layout.role->world_size;
  }
  return object;
}

Layout layout_in(Fields& fields) {
  Layout layout;
  layout.round = fields.integer("round", 0, INT_MAX);
  layout.restarts = fields.integer("restarts", 0, INT_MAX);
  layout.node_count = fields.integer("node_count", 1, INT_MAX);
  layout.node_rank = fields.integer("node_rank", 0, layout.node_count - 1);
  layout.world_size = fields.integer("world_size", 1, INT_MAX);
  layout.local_size = fields.integer("local_size", 1, layout.world_size);
  layout.first_rank = fields.integer("first_rank", 0, layout.world_size - layout.local_size);
  layout.guests = fields.integer("guests", 0, layout.node_count);
  layout.store_port = fields.integer("store_port", 0, 65'535);
  layout.store_host = fields.text("store_host");
  if (fields.has("role_world_size")) layout.role = role_place_in(fields, layout);
  return layout;
}

json json_of(const Ending& ending) {
  json object = json::object();
  if (const auto* failed = std::get_if<Failed>(&ending)) {
    object["failed"] = json_of(failed->root_cause);
    object["round"] = failed->round;
    object["aftermath"] = tail(failed->summary);
    object["no_restart"] = tail(failed->no_restart);
    object["suspect"] = tail(failed->suspect);
  } else if (const auto* timed_out = std::get_if<TimedOut>(&ending)) {
    object["timed_out"] = tail(timed_out->sentence);
  }
  return object;
}

Ending ending_in(Fields& fields) {
  if (fields.has("failed")) {
    Failed failed;
    failed.root_cause = failure_in(fields, "failed");
    failed.round = fields.integer("round", 0, INT_MAX);
    failed.summary = fields.text("aftermath");
    failed.no_restart = fields.text("no_restart");
    failed.suspect = fields.text("suspect");
    return failed;
  }
  if (fields.has("timed_out")) return TimedOut{fields.text("timed_out")};
  return Succeeded{};
}

json json_of(const SocketEnds& ends) {
  return {{"from", ends.from},
          {"from_port", ends.from_port},
          {"to", ends.to},
          {"to_port", ends.to_port}};
}

SocketEnds socket_ends(Fields fields, Fields& outer) {
  SocketEnds ends;
  ends.from = fields.text("from");
  ends.from_port = static_cast<std::uint16_t>(fields.integer("from_port", 0, 65'535));
  ends.to = fields.text("to");
  ends.to_port = static_cast<std::uint16_t>(fields.integer("to_port", 0, 65'535));
  outer.take_error(fields);
  return ends;
}

}  // namespace ddprun::rendezvous
