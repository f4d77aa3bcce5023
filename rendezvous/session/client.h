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
/// `lease_renewed` and `lease_over` are the workers' deadline. A client in the server's own process
/// cannot lose the server and has no lease.
///
/// Destroying it, which no hook may do, closes the connection; no hook is called any more.
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

  struct Hooks {
    /// The master's settings for every node; before any notification.
    std::function<void(const reply::Welcome&)> welcomed;
    std::function<void(Notification)> received;
    /// The answer to request_waiting_for().
    std::function<void(const std::string& sentence)> waiting;
    /// The server became unreachable, or reachable again; `sentence` says so.
    std::function<void(const std::string& sentence)> connection_changed;
    /// The lease ends then. The server waits a fifth of it longer.
    std::function<void(BootClock::time_point until)> lease_renewed;
    /// The lease is over, and the server may continue without this node: no worker may run any
    /// longer. The client keeps trying.
    std::function<void()> lease_over;
    /// The server is reachable again but does not know this node's round.
    std::function<void(const std::string& reason)> round_lost;
    /// A restart was counted for a failure of the last round that its master had not counted.
    std::function<void(const Failure& failure, int restarts)> failure_counted;
    /// The same, but none was counted: this node, or an elected master, was lost then.
    std::function<void(const Failure& failure)> failure_dropped;
    /// No notification will come any more. Errors: timed_out, protocol.
    std::function<void(Error)> gave_up;
    /// A connection to the server at this address was made; may be empty. `session` proves to the
    /// server who sends message::Gone.
    std::function<void(const boost::asio::ip::tcp::endpoint& server, const std::string& session)>
        connected;
    /// The master that Options::locate has found.
    std::function<void(const Endpoint& server)> located;
    /// Another agent asks through the server, or the answer to inquire() came.
    std::function<void(const Inquiry& inquiry)> inquired = [](const Inquiry&) {};
  };

  Client(const boost::asio::any_io_executor& executor, Options options, Hooks hooks);

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

  /// Asks what this node waits for. `waiting` has the answer, at once while the server is
  /// unreachable.
  void request_waiting_for() { perform(session_.ask(now())); }

  /// Asks or answers through the server, if that can be reached now. A lost connection loses the
  /// agents' questions and answers.
  void inquire(Inquiry inquiry) { perform(session_.inquire(std::move(inquiry), now())); }

  /// True also if the server has not been reached yet.
  bool is_unreachable() const { return session_.is_unreachable(); }

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
  void perform(const agent_action::Welcomed& event) { hooks_.welcomed(event.welcome); }
  void perform(const agent_action::Received& event) { hooks_.received(event.notification); }
  void perform(const agent_action::WaitingFor& event) { hooks_.waiting(event.sentence); }
  void perform(const agent_action::ConnectionChanged& event) {
    hooks_.connection_changed(event.sentence);
  }
  void perform(const agent_action::TellOwners& question);
  void perform(const agent_action::Inquiring& event) { hooks_.inquired(event.inquiry); }
  void perform(const agent_action::LeaseRenewed& event) { hooks_.lease_renewed(event.until); }
  void perform(const agent_action::LeaseOver&) { hooks_.lease_over(); }
  void perform(const agent_action::RoundLost& event) { hooks_.round_lost(event.reason); }
  void perform(const agent_action::FailureCounted& event) {
    hooks_.failure_counted(event.failure, event.restarts);
  }
  void perform(const agent_action::FailureDropped& event) { hooks_.failure_dropped(event.failure); }
  void perform(const agent_action::GaveUp& event) { hooks_.gave_up(event.error); }

  void on_located(const Result<Endpoint>& server);
  void on_dialed(boost::asio::ip::tcp::socket socket);
  void on_key(Result<KeyRequest::Key> key);
  void on_lost(ConnectionId id, const Error& error);
  void add_connection(StreamSocket socket);
  void connect_to_hosted();
  void on_reply(ConnectionId id, Result<Reply> reply);

  Options options_;
  Hooks hooks_;
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
  BootTimer timer_;
};

}  // namespace ddprun::rendezvous
