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
// JSON, one object with a "type". An agent sends Hello first, and the server answers with Welcome
// or Refused. A guardian sends only Gone, and gets no answer. Before an agent encrypts, it may ask
// for the secret on another connection: GetSecret, answered by SealedSecret or Refused.
//
// Join, Fail, Succeed, Progress, Leave and every notification survive the connection: each side
// counts those that it received, and reports the count in Hello, Welcome and Heartbeat. When the
// agent reconnects with the session of its Hello, the other side repeats the missing ones. Pure.

namespace ddprun::rendezvous {

using store::SocketEnds;

/// The most addresses of its host that an agent sends.
inline constexpr size_t kMaxAddresses = 32;

/// The longest sealed secret. munge adds some 100 bytes to the secret's 32, a tag and the job's id,
/// and writes each three as four.
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
  std::string host;            ///< its name, for messages
  std::string session;         ///< random; identifies the agent
  std::uint64_t received = 0;  ///< notifications of that session so far
  std::string ticket{};        ///< of the last Welcome; empty: none yet
  std::uint64_t number = 1;    ///< of this agent's hellos: a late one may come after a newer one
  /// The other addresses that its workers may connect from, as store::address_text writes them.
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
/// The workers have stopped making progress, or make progress again.
struct Progress {
  NodeProgress progress;
};
struct Leave {
  std::string signal{};  ///< the one its ddprun got, "SIGTERM"; empty: unknown
};
/// Asks what this node waits for.
struct Ask {};
/// The answer to reply::Whose: for each connection, whether a process of this node's user has it.
struct Owned {
  std::vector<bool> ours;
};
/// Asks for the job's secret, unencrypted, as the only message of a connection.
struct GetSecret {};
/// No process of this node runs any more. The agent's last message, or, if the agent was killed,
/// its guardian's only message on a connection.
struct Gone {
  std::string session;  ///< Hello's, which only this agent and the master know
  std::string how;      ///< "its agent was killed by SIGKILL"
};

}  // namespace message

using Message = std::variant<message::Hello, Heartbeat, message::Join, message::Fail,
                             message::Succeed, message::Progress, message::Leave, message::Ask,
                             message::Owned, message::GetSecret, message::Gone, Inquiry>;

/// The messages of the server other than notifications.
namespace reply {

struct Welcome {
  std::string master;          ///< random; new at each start of the server
  bool resumed = false;        ///< the master knew the session; else it is new
  std::uint64_t received = 0;  ///< counted messages of that session so far
  // The master's settings hold for every node.
  std::chrono::milliseconds heartbeat{0};
  std::chrono::milliseconds lease{0};
  int max_restarts = 0;
  /// Names the master's record of this session: a new one if it had declared the node lost.
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
/// Asks whose these connections to the store are. The next question follows the answer.
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
/// The same for a stranger's first frame, which may have only few values, so that it costs little.
Result<Message> decode_first_message(std::string_view body);
Result<Reply> decode_reply(std::string_view body);

}  // namespace ddprun::rendezvous
