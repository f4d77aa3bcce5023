// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/wire/protocol.h"

#include <climits>
#include <sys/wait.h>
#include <utility>
#include <vector>

#include "base/json.h"
#include "rendezvous/wire/control_frames.h"
#include "rendezvous/wire/described.h"
#include "rendezvous/wire/fields.h"

namespace ddprun::rendezvous {
namespace {

constexpr size_t kMostFirstValues = 4 * kMaxAddresses;  // a hello has its addresses and ten more
constexpr size_t kMaxId = 64;                           // of a session, a master, a ticket
constexpr size_t kMaxRanks = 2'048;  // in one list; of more stopped workers the first count
constexpr size_t kMaxFailed = 128;
constexpr size_t kMaxHow = 64;
constexpr size_t kMaxWhat = 160;  // a call, a line and a state
constexpr size_t kMaxPlaces = 16;
constexpr size_t kMaxCalls = 128;
constexpr size_t kMaxRecent = 16;         // calls of a group
constexpr size_t kMaxPlaceRanks = 1'024;  // of all places, or all calls, of a node
constexpr size_t kMaxSentence = 256;      // of a join, which has much else
constexpr size_t kMaxRole = 256;
constexpr size_t kMaxSignalName = 32;
constexpr size_t kMaxAddress = 45;          // of IPv6
constexpr size_t kMaxAsked = 256;           // connections in one question
constexpr int kMaxLastRound = INT_MAX / 2;  // a master counts on from there
constexpr int kMaxRestarts = INT_MAX / 2;   // likewise
constexpr int kMaxLocalSize = 65'536;
constexpr int kMaxPort = 65'535;

/// Whether a process that ended so has failed. A process that only stopped has not ended.
bool is_failure(int wait_status) {
  return WIFSIGNALED(wait_status) || (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) != 0);
}

}  // namespace

// Values that messages consist of.

template <class Io>
void describe(Io& io, Is<Failure> auto& failure) {
  io.integer("rank", failure.rank, 0, INT_MAX);
  io.integer("wait_status", failure.wait_status, 1, 0xffff);
  io.require(is_failure(failure.wait_status), "wait_status");
  io.integer("pid", failure.pid, 0, INT_MAX);
  io.seconds("seconds", failure.seconds);
  io.text("host", failure.host);
  io.text("cause", failure.cause);
  io.text("stderr_tail", failure.stderr_tail);
  io.text("exception", failure.exception);
  io.text("traceback", failure.traceback);
  io.boolean("hung", failure.hung);
  io.text("log_folder", failure.log_folder);
}

template <class Io>
void describe(Io& io, Is<FailedWorker> auto& worker) {
  io.integer("rank", worker.rank, 0, INT_MAX);
  io.text("how", worker.how, kMaxHow);
  io.boolean("consequence", worker.consequence);
  io.boolean("lost_peer", worker.lost_peer);
}

template <class Io>
void describe(Io& io, Is<WorkerPlace> auto& place) {
  io.ranks("ranks", place.ranks, kMaxPlaceRanks);
  io.enumerator("kind", place.kind, WorkerPlace::Kind::last);
  io.text("what", place.what, kMaxWhat);
  io.seconds("seconds", place.seconds);
}

template <class Io>
void describe(Io& io, Is<CallPlace> auto& call) {
  io.count("group", call.group);
  io.count("begun", call.begun);
  io.count("open", call.open);
  io.text("shown", call.shown, kMaxHow);
  io.ranks("ranks", call.ranks, kMaxPlaceRanks);
  io.texts("recent", call.recent, kMaxRecent, kMaxHow);
  io.boolean("failed", call.failed);
  io.text("release", call.release, kMaxHow);
}

/// A list of places or calls: all of it or nothing, as a part would accuse the ranks that it has.
template <class Io, class List>
void describe_all_or_none(Io& io, const char* name, List& list, size_t most) {
  if constexpr (!Io::kReads) {
    size_t ranks = 0;
    for (const auto& element : list) ranks += element.ranks.size();
    if (list.size() > most || ranks > kMaxPlaceRanks) return io.list(name, List{}, most);
  }
  io.list(name, list, most);
}

template <class Io>
void describe(Io& io, Is<WorkerExits> auto& exits) {
  io.list("failed", exits.failed, kMaxFailed);
  io.ranks("stopped", exits.stopped, kMaxRanks);
  io.ranks("killed", exits.killed, kMaxRanks);
  io.text("signal", exits.signal, kMaxHow);
  io.seconds("seconds", exits.seconds);
  describe_all_or_none(io, "places", exits.places, kMaxPlaces);
  describe_all_or_none(io, "calls", exits.calls, kMaxCalls);
}

template <class Io>
void describe(Io& io, Is<NodeProgress> auto& progress) {
  io.integer("round", progress.round, 0, INT_MAX);
  io.boolean("quiet", progress.quiet);
  io.seconds("seconds", progress.seconds);
  describe_all_or_none(io, "places", progress.places, kMaxPlaces);
  describe_all_or_none(io, "calls", progress.calls, kMaxCalls);
}

template <class Io>
void describe(Io& io, Is<JoinRequest> auto& request) {
  io.integer("local_size", request.local_size, 1, kMaxLocalSize);
  if (io.present("node_rank", request.node_rank)) {
    io.integer("node_rank", *request.node_rank, 0, INT_MAX);
  }
  io.text("host", request.host);
  io.boolean("is_host", request.is_host);
  io.boolean("hosting", request.hosting);
  io.integer("store_port", request.store_port, 0, kMaxPort);
  io.text("cannot_run", request.cannot_run, kMaxSentence);
  io.text("command", request.command, kMaxSentence);
  io.count("command_hash", request.command_hash);
  io.token("role", request.role, kMaxRole);
  io.integer("last_round", request.last_round, -1, kMaxLastRound);
  io.token("last_master", request.last_master, kMaxId);
  io.integer("last_node_rank", request.last_node_rank, -1, INT_MAX);
  io.integer("last_guests", request.last_guests, 0, INT_MAX);
  io.boolean("last_hosted", request.last_hosted);
  io.integer("last_restarts", request.last_restarts, 0, kMaxRestarts);
  io.integer("restarts", request.restarts, request.last_restarts, kMaxRestarts);
  if (io.present("unreported_failure", request.unreported_failure)) {
    io.object("unreported_failure", *request.unreported_failure);
  }
  io.object("worker_exits", request.worker_exits);
}

template <class Io>
void describe(Io& io, Is<Layout> auto& layout) {
  io.integer("round", layout.round, 0, INT_MAX);
  io.integer("restarts", layout.restarts, 0, INT_MAX);
  io.integer("node_count", layout.node_count, 1, INT_MAX);
  io.integer("node_rank", layout.node_rank, 0, layout.node_count - 1);
  io.integer("world_size", layout.world_size, 1, INT_MAX);
  io.integer("local_size", layout.local_size, 1, layout.world_size);
  io.integer("first_rank", layout.first_rank, 0, layout.world_size - layout.local_size);
  io.integer("guests", layout.guests, 0, layout.node_count);
  io.integer("store_port", layout.store_port, 0, kMaxPort);
  io.text("store_host", layout.store_host);
  if (io.present("role_world_size", layout.role)) {
    auto& [first_rank, world_size] = *layout.role;
    io.integer("role_world_size", world_size, layout.local_size, layout.world_size);
    io.integer("role_first_rank", first_rank, 0, world_size - layout.local_size);
  }
}

template <>
constexpr const char* kWireName<Succeeded> = "succeeded";
template <class Io>
void describe(Io&, Is<Succeeded> auto&) {}

template <>
constexpr const char* kWireName<Failed> = "failed";
template <class Io>
void describe(Io& io, Is<Failed> auto& failed) {
  io.object("root_cause", failed.root_cause);
  io.integer("round", failed.round, 0, INT_MAX);
  io.text("summary", failed.summary);
  io.text("no_restart", failed.no_restart);
  io.text("suspect", failed.suspect);
}

template <>
constexpr const char* kWireName<TimedOut> = "timed_out";
template <class Io>
void describe(Io& io, Is<TimedOut> auto& timed_out) {
  io.text("sentence", timed_out.sentence);
}

template <class Io>
void describe(Io& io, Is<SocketEnds> auto& ends) {
  io.text("from", ends.from);
  io.integer("from_port", ends.from_port, 0, kMaxPort);
  io.text("to", ends.to);
  io.integer("to_port", ends.to_port, 0, kMaxPort);
}

// The messages of an agent.

template <>
constexpr const char* kWireName<message::Hello> = "hello";
template <class Io>
void describe(Io& io, Is<message::Hello> auto& hello) {
  io.text("run_id", hello.run_id);
  io.integer("min_nodes", hello.min_nodes, 1, INT_MAX);
  io.integer("max_nodes", hello.max_nodes, hello.min_nodes, INT_MAX);
  io.text("host", hello.host);
  io.token("session", hello.session, kMaxId);
  io.count("received", hello.received);
  io.token("ticket", hello.ticket, kMaxId);
  io.count("number", hello.number);
  io.tokens("addresses", hello.addresses, kMaxAddresses, kMaxAddress);
}

template <>
constexpr const char* kWireName<Heartbeat> = "heartbeat";
template <class Io>
void describe(Io& io, Is<Heartbeat> auto& heartbeat) {
  io.count("received", heartbeat.received);
}

template <>
constexpr const char* kWireName<message::Join> = "join";
template <class Io>
void describe(Io& io, Is<message::Join> auto& join) {
  describe(io, join.request);
}

template <>
constexpr const char* kWireName<message::Fail> = "fail";
template <class Io>
void describe(Io& io, Is<message::Fail> auto& fail) {
  io.integer("round", fail.round, 0, INT_MAX);
  io.object("failure", fail.failure);
}

template <>
constexpr const char* kWireName<message::Succeed> = "succeed";
template <class Io>
void describe(Io& io, Is<message::Succeed> auto& succeed) {
  io.integer("round", succeed.round, 0, INT_MAX);
}

template <>
constexpr const char* kWireName<message::Progress> = "progress";
template <class Io>
void describe(Io& io, Is<message::Progress> auto& progress) {
  io.object("progress", progress.progress);
}

template <>
constexpr const char* kWireName<message::Leave> = "leave";
template <class Io>
void describe(Io& io, Is<message::Leave> auto& leave) {
  io.token("signal", leave.signal, kMaxSignalName);
}

template <>
constexpr const char* kWireName<message::Ask> = "ask";
template <class Io>
void describe(Io&, Is<message::Ask> auto&) {}

template <>
constexpr const char* kWireName<message::Owned> = "owned";
template <class Io>
void describe(Io& io, Is<message::Owned> auto& owned) {
  io.booleans("ours", owned.ours, kMaxAsked);
}

template <>
constexpr const char* kWireName<message::GetSecret> = "get_secret";
template <class Io>
void describe(Io&, Is<message::GetSecret> auto&) {}

template <>
constexpr const char* kWireName<message::Gone> = "gone";
template <class Io>
void describe(Io& io, Is<message::Gone> auto& gone) {
  io.token("session", gone.session, kMaxId);
  io.text("how", gone.how);
}

// The replies of the master.

template <>
constexpr const char* kWireName<reply::Welcome> = "welcome";
template <class Io>
void describe(Io& io, Is<reply::Welcome> auto& welcome) {
  io.token("master", welcome.master, kMaxId);
  io.boolean("resumed", welcome.resumed);
  io.count("received", welcome.received);
  io.milliseconds("heartbeat_ms", welcome.heartbeat);
  io.milliseconds("lease_ms", welcome.lease);
  io.integer("max_restarts", welcome.max_restarts, 0, INT_MAX);
  io.token("ticket", welcome.ticket, kMaxId);
  io.milliseconds("hang_timeout_ms", welcome.hang_timeout);
}

template <>
constexpr const char* kWireName<reply::Waiting> = "waiting";
template <class Io>
void describe(Io& io, Is<reply::Waiting> auto& waiting) {
  io.text("sentence", waiting.sentence);
}

template <>
constexpr const char* kWireName<reply::SealedSecret> = "sealed_secret";
template <class Io>
void describe(Io& io, Is<reply::SealedSecret> auto& sealed) {
  io.token("credential", sealed.credential, kMaxCredential);
}

template <>
constexpr const char* kWireName<reply::Whose> = "whose";
template <class Io>
void describe(Io& io, Is<reply::Whose> auto& whose) {
  io.whole_list("connections", whose.connections, kMaxAsked);
}

template <>
constexpr const char* kWireName<Ready> = "ready";
template <class Io>
void describe(Io& io, Is<Ready> auto& ready) {
  describe(io, ready.layout);
  io.text("suspect", ready.suspect);
}

template <>
constexpr const char* kWireName<Broken> = "broken";
template <class Io>
void describe(Io& io, Is<Broken> auto& broken) {
  io.text("reason", broken.reason);
  io.integer("restarts", broken.restarts, 0, INT_MAX);
  io.boolean("ends_job", broken.ends_job);
  if (io.present("root_cause", broken.root_cause)) io.object("root_cause", *broken.root_cause);
}

template <>
constexpr const char* kWireName<Closed> = "closed";
template <class Io>
void describe(Io& io, Is<Closed> auto& closed) {
  io.object("ending", closed.ending);
}

template <>
constexpr const char* kWireName<Refused> = "refused";
template <class Io>
void describe(Io& io, Is<Refused> auto& refused) {
  io.text("sentence", refused.sentence);
  io.boolean("left_out", refused.left_out);
  io.boolean("is_stranger", refused.is_stranger);
}

template <>
constexpr const char* kWireName<Stalled> = "stalled";
template <class Io>
void describe(Io& io, Is<Stalled> auto& stalled) {
  io.text("text", stalled.text);
}

// Questions of agents to each other.

template <>
constexpr const char* kWireName<ListNodes> = "list_nodes";
template <class Io>
void describe(Io& io, Is<ListNodes> auto& list) {
  io.count("after", list.after);
}

template <class Io>
void describe(Io& io, Is<ListedNode> auto& node) {
  io.count("id", node.id);
  io.text("host", node.host);
  io.text("state", node.state, kMaxHow);
  io.integer("node_rank", node.node_rank, -1, INT_MAX);
  io.integer("first_rank", node.first_rank, 0, INT_MAX);
  io.integer("local_size", node.local_size, 1, kMaxLocalSize);
  io.seconds("silent", node.silent);
  io.boolean("connected", node.connected);
}

template <>
constexpr const char* kWireName<NodeList> = "node_list";
template <class Io>
void describe(Io& io, Is<NodeList> auto& list) {
  io.count("after", list.after);
  io.whole_list("nodes", list.nodes, kMaxListed);
  io.boolean("more", list.more);
  io.text("waiting", list.waiting);
}

template <>
constexpr const char* kWireName<Inquire> = "inquire";
template <class Io>
void describe(Io& io, Is<Inquire> auto& inquire) {
  io.count("number", inquire.number);
  io.count("node", inquire.node);
  io.plain("question", inquire.question, kMaxQuestion);
}

template <>
constexpr const char* kWireName<Inquired> = "inquired";
template <class Io>
void describe(Io& io, Is<Inquired> auto& inquired) {
  io.count("asker", inquired.asker);
  io.count("number", inquired.number);
  io.plain("question", inquired.question, kMaxQuestion);
}

template <>
constexpr const char* kWireName<Inform> = "inform";
template <class Io>
void describe(Io& io, Is<Inform> auto& inform) {
  io.count("asker", inform.asker);
  io.count("number", inform.number);
  io.plain("answer", inform.answer, kMaxAnswer);
}

template <>
constexpr const char* kWireName<Informed> = "informed";
template <class Io>
void describe(Io& io, Is<Informed> auto& informed) {
  io.count("number", informed.number);
  io.count("node", informed.node);
  io.plain("answer", informed.answer, kMaxAnswer);
}

template <>
constexpr const char* kWireName<StopJob> = "stop_job";
template <class Io>
void describe(Io&, Is<StopJob> auto&) {}

namespace {

template <class T>
std::string encoded(const T& message) {
  Json object = Json::object();
  write_typed(object, message);
  return frame_of(json_text(object));
}

template <class T>
Result<T> decoded(std::string_view body, size_t most_values = std::string_view::npos) {
  const auto parsed = parse_bounded(body, most_values);
  const Json object = parsed.is_object() ? parsed : Json::object();
  Fields fields(object);
  const std::string type = fields.text("type");
  T message{};
  if (read_typed(fields, type, message)) return fields.or_error<T>(std::move(message));
  return Error{Errc::protocol, "unknown message type '" + type.substr(0, 32) + "'"};
}

}  // namespace

std::string encode(const Message& message) {
  return encoded(message);
}

std::string encode(const Reply& reply) {
  return encoded(reply);
}

Result<Message> decode_message(std::string_view body) {
  return decoded<Message>(body);
}

Result<Message> decode_first_message(std::string_view body) {
  return decoded<Message>(body, kMostFirstValues);
}

Result<Reply> decode_reply(std::string_view body) {
  return decoded<Reply>(body);
}

}  // namespace ddprun::rendezvous
