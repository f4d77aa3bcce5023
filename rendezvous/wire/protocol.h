// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "rendezvous/layout.h"
#include "rendezvous/node.h"
#include "rendezvous/round/round.h"
#include "rendezvous/wire/control_frames.h"
#include "rendezvous/wire/inquiry.h"
#include "store/socket_owner.h"

// The messages between agents and the rendezvous server. Each is a frame (control_frames.h) of
// JSON, one object with a "type". The agent's first one is Hello, the server's answer Welcome, or
// Refused. A guardian's only message is Gone, and has no answer. Before an agent encrypts it may
// ask for the secret, on another connection: GetSecret, and SealedSecret or Refused.
//
// Join, Fail, Succeed, Progress, Leave and every notification survive the connection: each side
// counts those it received and reports the count in Hello, Welcome and Heartbeat, and the other
// side repeats what is missing when the agent reconnects with the session of its Hello. Pure.

namespace ddprun::rendezvous {

using store::SocketEnds;

/// The most addresses that an agent tells of its host.
inline constexpr size_t kMaxAddresses = 32;

/// The longest sealed secret. munge adds some 100 bytes to its 32, a tag and the job's id, and
/// writes four for three.
inline constexpr size_t kMaxCredential = 2048;

/// In both directions: the server answers each at once.
struct Heartbeat {
  std::uint64_t received = 0;  ///< counted messages of the other side so far
};

/// The messages of an agent.
namespace message {

struct Hello {
  std::string run_id;  ///< agents of another job are refused
  int min_nodes = 1;   ///< --nnodes, which must be the same on every node
  int max_nodes = 1;
  std::string host;            ///< for people
  std::string session;         ///< random, the agent's own: it identifies the agent
  std::uint64_t received = 0;  ///< notifications of that session so far
  std::string ticket{};        ///< of the last Welcome; empty: none yet
  std::uint64_t number = 1;    ///< of this agent's hellos: a late one may come after a newer one
  /// Where its workers may connect from besides its own address, as store::address_text gives them.
  std::vector<std::string> addresses{};
};
struct Join {
  JoinRequest request;
};
struct Fail {
  int round;
  Failure failure;
};
struct Succeed {
  int round;
};
/// The workers have stopped making progress, or make some again.
struct Progress {
  NodeProgress progress;
};
struct Leave {
  std::string signal{};  ///< that its ddprun got, "SIGTERM"; empty: unknown
};
/// Asks what this node waits for.
struct Ask {};
/// The answer to reply::Whose: for each connection whether a process of this node's user has it.
struct Owned {
  std::vector<bool> ours;
};
/// Asks for the job's secret, unencrypted, as the only message of a connection.
struct GetSecret {};
/// Nothing of this node runs any more. Said by the agent as its last message, or, when it was
/// killed, by its guardian as the only message of a connection.
struct Gone {
  std::string session;  ///< of the Hello: known to this agent and the master only
  std::string how;      ///< "its agent was killed by SIGKILL"
};

}  // namespace message

using Message = std::variant<message::Hello, Heartbeat, message::Join, message::Fail,
                             message::Succeed, message::Progress, message::Leave, message::Ask,
                             message::Owned, message::GetSecret, message::Gone, Inquiry>;

/// The messages of the server other than notifications.
namespace reply {

struct Welcome {
  std::string master;          ///< random, another one each time the server is started
  bool resumed = false;        ///< it knew the session; else this is a new one
  std::uint64_t received = 0;  ///< counted messages of that session so far
  // The master's settings hold for every node.
  std::chrono::milliseconds heartbeat{0};
  std::chrono::milliseconds lease{0};
  int max_restarts = 0;
  /// Names what the master knows of this session: another one after it had declared the node lost.
  std::string ticket{};
  std::chrono::milliseconds hang_timeout{0};
};
/// The answer to Ask, to follow "waiting for"; empty: the job is over.
struct Waiting {
  std::string sentence;
};
/// The answer to GetSecret: only this job's user can open it (munge).
struct SealedSecret {
  std::string credential;
};
/// Asks whose these connections to the store are. The next one follows when it is answered.
struct Whose {
  std::vector<SocketEnds> connections;
};

}  // namespace reply

using Reply = std::variant<reply::Welcome, Heartbeat, reply::Waiting, reply::SealedSecret,
                           reply::Whose, Notification, Inquiry>;

/// A whole frame, ready to be sent. Bytes that are not UTF-8 are replaced; stderr tails and
/// causes are cut to fit.
std::string encode(const Message& message);
std::string encode(const Reply& reply);

/// The body of one frame. Errors: protocol, naming what is missing or out of range.
Result<Message> decode_message(std::string_view body);
/// Likewise of a stranger's frame, which has few values, so that it costs little: a hello.
Result<Message> decode_first_message(std::string_view body);
Result<Reply> decode_reply(std::string_view body);

}  // namespace ddprun::rendezvous
