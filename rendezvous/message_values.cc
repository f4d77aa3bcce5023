// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/message_values.h"

#include <algorithm>
#include <climits>
#include <sys/wait.h>
#include <utility>

#include <nlohmann/json.hpp>

namespace ddprun::rendezvous {
namespace {

using nlohmann::json;

constexpr size_t kMaxRanks = 2'048;  // in one list; of more stopped workers the first are reported
constexpr size_t kMaxVictims = 128;
constexpr size_t kMaxHow = 64;
constexpr size_t kMaxPlaces = 16;
constexpr size_t kMaxPlaceRanks = 1'024;  // of all places of a node
constexpr size_t kMaxCalls = 64;

bool continues_character(char byte) {  // in UTF-8
  return (byte & 0xc0) == 0x80;
}

/// Whether a process that ended so has failed; one that only stopped has not ended.
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
