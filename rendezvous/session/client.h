// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "base/boot_clock.h"
#include "base/error.h"
#include "rendezvous/net/boot_timer.h"
#include "rendezvous/net/dialer.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/round/round.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/agent_session.h"
#include "rendezvous/wire/control_connection.h"
#include "rendezvous/wire/key_request.h"
#include "rendezvous/wire/own_line.h"
#include "rendezvous/wire/protocol.h"
#include "store/owner_lookup.h"

namespace ddprun::rendezvous {

class Server;

/// This node's session with the rendezvous server, for the whole job. If a connection breaks, or
/// the server is silent on it, the client makes a new one and repeats lost messages: as long as the
/// server still knows this node, the other nodes do not notice. DOES what AgentSession decides.
///
/// LeaseRenewed and LeaseOver are the workers' deadline. A client in the server's own process
/// cannot lose the server and has no lease.
///
/// Destroying it, which Report may not do, closes the connection; nothing is reported any more.
/// Thread: the executor's.
class Client {
 public:
  using Located = std::function<void(Result<Endpoint>)>;

  struct Options {
    Endpoint server;
    /// Finds the server before each attempt to connect; empty: it is at `server`. Calls its
    /// argument later, once. Only the last of several calls matters.
    std::function<void(Located)> locate;
    std::string master;     ///< the place to ask, for messages
    bool searched = false;  ///< `locate` returns one of several places, not the master's
    std::optional<boost::asio::ip::address> local;  ///< the address to connect from
    std::string run_id;
    int min_nodes = 1;
    int max_nodes = 1;
    std::string host;                          ///< this node's name, for messages
    Server* hosted = nullptr;                  ///< the server, if it is in this process
    std::shared_ptr<const Security> security;  ///< of the job; nullptr: it has no secret
    /// Opens the master's sealed secret, which replaces `security`'s; empty: the master has
    /// `security`'s.
    KeyRequest::Open open_secret;
    std::chrono::milliseconds join_timeout{600'000};  ///< the wait for the server
  };

  /// Gets each event, from the executor or from within a call of this client.
  using Report = std::function<void(const NodeEvent&)>;

  Client(const boost::asio::any_io_executor& executor, Options options, Report report);

  /// Asks to be part of the next round; connects first if needed. A notification follows.
  void join(JoinRequest request) { perform(session_.join(std::move(request), now())); }

  /// Reports the first worker that failed here in `round`.
  void fail(int round, Failure failure) {
    perform(session_.fail(round, std::move(failure), now()));
  }

  /// Reports that all workers of `round` on this node succeeded.
  void succeed(int round) { perform(session_.succeed(round, now())); }

  /// Reports that the workers have stopped making progress, or make progress again.
  void progress(NodeProgress progress) { perform(session_.progress(std::move(progress), now())); }

  /// Reports that this node takes no further part. The others continue when it is gone.
  void leave(const std::string& signal) { perform(session_.leave(signal, now())); }

  /// Reports, if the server can be reached now, that no process of this node runs any more, and
  /// `how` it ended. Nothing follows.
  void gone(const std::string& how) { perform(session_.gone(how, now())); }

  /// Asks what this node waits for. WaitingFor has the answer, at once while the server is
  /// unreachable.
  void request_waiting_for() { perform(session_.ask(now())); }

  /// Asks or answers through the server, if that can be reached now. A lost connection loses the
  /// agents' questions and answers.
  void inquire(Inquiry inquiry) { perform(session_.inquire(std::move(inquiry), now())); }

  /// True also if the server has not been reached yet.
  bool is_unreachable() const { return session_.is_unreachable(); }

  /// The address of the last connection to the server that was made over TCP.
  const boost::asio::ip::tcp::endpoint& connected_to() const { return connected_to_; }

  /// The session's name, which only this process and the server know.
  const std::string& session() const { return session_name_; }

  /// The job's key, if it is known already; nullptr: the job has no secret.
  const std::shared_ptr<const Security>& security() const { return options_.security; }

 private:
  static BootClock::time_point now() { return BootClock::now(); }

  void perform(AgentActions actions);
  void perform(const agent_action::Dial&);
  void perform(const agent_action::StopDialing&);
  void perform(const agent_action::Send& send);
  void perform(const agent_action::Close& close);
  void perform(const agent_action::TellOwners& question);
  void perform(const NodeEvent& event) { report_(event); }

  void on_located(const Result<Endpoint>& server);
  void on_dialed(boost::asio::ip::tcp::socket socket);
  void on_key(Result<KeyRequest::Key> key);
  void on_lost(ConnectionId id, const Error& error);
  void add_connection(StreamSocket socket);
  void connect_to_hosted();
  void on_reply(ConnectionId id, Result<Reply> reply);

  Options options_;
  const Report report_;
  const std::string session_name_;
  AgentSession session_;
  Dialer dialer_;
  KeyRequest key_request_;
  bool has_key_;                    // the current master's, as the client believes
  std::shared_ptr<char> locating_;  // null: no search; handlers check that it is theirs
  store::OwnerLookup owners_;
  std::map<ConnectionId, std::unique_ptr<ControlConnection>> connections_;
  std::map<ConnectionId, std::unique_ptr<AgentsEnd>> own_lines_;  // to Options::hosted
  ConnectionId last_connection_ = 0;
  std::deque<AgentAction> queued_actions_;  // came while another one was performed
  bool performing_ = false;
  boost::asio::ip::tcp::endpoint connected_to_;
  BootTimer timer_;
};

}  // namespace ddprun::rendezvous
