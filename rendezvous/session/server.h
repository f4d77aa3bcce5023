// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "base/boot_clock.h"
#include "base/error.h"
#include "base/limited_log.h"
#include "rendezvous/access/store_admission_queue.h"
#include "rendezvous/access/tunnel_line.h"
#include "rendezvous/net/boot_timer.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/net/stream_socket.h"
#include "rendezvous/secret/secure_channel.h"
#include "rendezvous/session/listener.h"
#include "rendezvous/session/server_sessions.h"
#include "rendezvous/wire/control_connection.h"
#include "rendezvous/wire/own_line.h"
#include "store/connection_slots.h"
#include "store/server.h"
#include "store/wire.h"

namespace ddprun::rendezvous {

/// The rendezvous of one job on one port: agents find each other through it, and workers find the
/// store there. DOES what ServerSessions decides.
///
/// Destroying it closes every connection.
/// Thread: the executor's.
class Server {
 public:
  struct Options : LeaseSpec {
    std::string run_id;  ///< agents of another job are refused
    RoundSpec round;
    /// The store lets in only connections that an agent confirms. Useful if agents have to prove
    /// that they know the job's secret.
    bool confirm_clients = false;
    /// The store's clients come through tunnels, except those of this process. Needs `security`.
    bool tunnels_only = false;
    /// Describes a failure to the other workers of its round.
    std::function<std::string(const Failure& failure)> loss_text;
    /// Agents of other processes have to encrypt, with the same key; nullptr: they must not.
    std::shared_ptr<const Security> security;
    /// The secret of `security`, sealed for this user's processes, to give to agents that ask for
    /// it. Empty: they have it.
    std::string sealed_secret;
    /// The session of this process's agent, if it connects as the others do; else empty.
    std::string resident;
    /// The state that earlier masters left; nullopt: the master is not elected.
    std::optional<JobState> inherited;
    /// Leaves an elected master's state to the next one; recorded() follows.
    std::function<void(const JobState& state)> record;
  };

  /// Listens on those of `addresses` that are this host's; port 0 takes a free one, the same for
  /// all. Errors: as Listener::listen.
  static Result<std::unique_ptr<Server>> listen(
      boost::asio::any_io_executor executor,
      const std::vector<boost::asio::ip::tcp::endpoint>& addresses, Options options);

  /// The first address that it listens at.
  boost::asio::ip::tcp::endpoint address() const { return listener_.address(); }

  /// Makes a line to this server for the agent of its own process. It ends only with the server.
  std::unique_ptr<AgentsEnd> connect(AgentsEnd::Hooks hooks);

  /// Lets in a client of the store, of this process's node; `received` was read from it.
  void adopt_client(boost::asio::ip::tcp::socket socket, std::string_view received,
                    store::ConnectionSlot slot) {
    store_.adopt(std::move(socket), received, std::move(slot));
  }

  /// The state that `record` got last is safe: the server announces the news that waited for it.
  void recorded() { perform(sessions_.recorded()); }

  /// The name that agents know: Welcome::master.
  const std::string& name() const { return sessions_.name(); }

  /// Whether the job is over, or was stopped by an inquiry.
  bool is_ending() const { return sessions_.is_ending(); }

  /// Calls `settled` when the job is over or was stopped, and every agent has acknowledged that, or
  /// is lost.
  void when_settled(std::function<void()> settled);

  /// How the job ended; nullopt: it has not.
  const std::optional<Ending>& ending() const { return sessions_.round().ending(); }

  /// Calls `changed` each time that a round begins (`runs`; after that only spares wait) or ends.
  void when_round_changes(std::function<void(bool runs)> changed) {
    round_changed_ = std::move(changed);
  }

  /// Returns ServerSessions::waiting_for.
  std::string waiting_for() { return sessions_.waiting_for(BootClock::now()); }

  /// The addresses of the connected agents, without that of this process.
  std::vector<std::string> agent_addresses() const;

 private:
  using Tcp = boost::asio::ip::tcp;

  Server(boost::asio::any_io_executor executor, Options options);

  /// An agent's connection to this process.
  struct Connection {
    store::ConnectionSlot slot;
    std::unique_ptr<ControlConnection> channel;  ///< nullptr: `own` is used
    std::unique_ptr<ServersEnd> own{};           ///< to the agent in this process
    std::string address{};                       ///< without a zone; empty: this process's agent
    bool is_agent = false;                       ///< of this job; false: it may be a stranger
    std::string unheard{};  ///< the body of a stranger's frame, which waits for its turn
  };

  void add_connection(StreamSocket socket, std::string address, std::string_view received,
                      int version, store::ConnectionSlot slot,
                      std::unique_ptr<SecureChannel> secure);

  void on_frame(ConnectionId id, std::string_view body);
  void hear_next_later();
  void hear_next();
  size_t hear(ConnectionId stranger);

  void perform(const ServerActions& actions);
  void perform(const server_action::Send& send);
  void perform(const server_action::Identified& identified);
  void perform(const server_action::Close& close);
  void perform(const server_action::Owned& owned) {
    admissions_.answered(owned.connection, owned.ours);
  }
  void perform(const server_action::EmptyStore&);
  void perform(const server_action::NotifyWorkers& notify) {
    store_.notify_failure(store::loss_text(notify.lost, notify.sentence));
  }
  void perform(const server_action::Warn& warn);
  void perform(const server_action::Record& record) { record_(record.state); }
  Listener::Hooks listener_hooks();
  void take_client(Tcp::socket socket, std::string_view received, store::ConnectionSlot slot);
  void ask_owners(ConnectionId line, const std::vector<SocketEnds>& connections);
  void report_if_settled();
  void report_round();

  boost::asio::any_io_executor executor_;
  const bool has_secret_;
  const bool tunnels_only_;
  ServerSessions sessions_;
  store::Server store_;
  std::unordered_map<ConnectionId, Connection> connections_;
  ConnectionId last_connection_ = 0;
  std::deque<ConnectionId> strangers_;          ///< those with an `unheard` frame, in turn
  std::shared_ptr<const Reply> encoded_reply_;  ///< the last one sent, as many may get the same
  std::string encoded_;                         ///< its frame
  std::function<void(const JobState& state)> record_;
  std::function<void()> settled_;
  std::function<void(bool runs)> round_changed_;
  bool runs_round_ = false;  ///< the last value reported
  BootTimer timer_;
  log::LimitedLog log_;
  log::LimitedLog store_log_;
  StoreAdmissionQueue admissions_;
  TunnelEnds tunnels_;
  Listener listener_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace ddprun::rendezvous
