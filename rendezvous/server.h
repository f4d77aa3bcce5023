// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "base/limited_log.h"
#include "rendezvous/control_connection.h"
#include "rendezvous/delivery.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/lease.h"
#include "rendezvous/listener.h"
#include "rendezvous/protocol.h"
#include "rendezvous/round.h"
#include "rendezvous/stream_socket.h"
#include "store/guests.h"
#include "store/server.h"

namespace ddprun::rendezvous {

/// The rendezvous of one job on one port: agents find each other through it, and workers find the
/// store there. DOES what Round decides, and knows which agents are reachable.
///
/// An agent whose kernel closed its connection is lost at once. One that is silent, or whose
/// connection broke on the way, is lost after the eviction timeout: its lease, and the time to kill
/// its workers.
///
/// Destroying it closes every connection.
/// Thread: the executor's.
class Server {
 public:
  struct Options : LeaseSpec {
    std::string run_id;  ///< agents of another job are refused
    RoundSpec round;
    /// A failure in words, for the other workers of its round.
    std::function<std::string(const Failure& failure)> loss_text;
  };

  /// Listens on those of `addresses` that are this host's; port 0 takes a free one, the same for
  /// all. Errors: as Listener::listen.
  static Result<std::unique_ptr<Server>> listen(
      boost::asio::any_io_executor executor,
      const std::vector<boost::asio::ip::tcp::endpoint>& addresses, Options options);

  /// Where it listens first.
  boost::asio::ip::tcp::endpoint address() const { return listener_.address(); }

  /// A connection to this server for the agent of its own process, which leaves out the greeting.
  /// It ends with the server only. Errors: system.
  Result<StreamSocket> connect();

  /// Calls `settled` when the job is over and every agent has acknowledged that, or is lost.
  void when_settled(std::function<void()> settled);

  /// How the job ended; nullopt: it has not.
  const std::optional<Ending>& ending() const { return round_.ending(); }

  /// Whether a round runs: only spares wait then.
  bool runs_round() const { return round_.phase() == Round::Phase::active; }

  /// As Round::waiting_for; once the job is over, the agents that have not acknowledged it.
  std::string waiting_for();

 private:
  using Clock = std::chrono::steady_clock;
  using Tcp = boost::asio::ip::tcp;

  /// A connection that greeted as an agent.
  struct Connection {
    std::string address;         ///< of the other side
    std::optional<NodeId> node;  ///< nullopt: no hello has come yet, or it was refused
    bool refused = false;
    bool spoke = false;  ///< since its hello
    store::Guest guest;
    std::unique_ptr<ControlConnection> channel;
  };
  using Connections = std::list<Connection>;

  /// An agent and its session, which outlives its connections.
  struct Agent {
    std::string session;
    std::string host;
    bool is_host = false;                             ///< as it said when it joined
    bool in_process = false;                          ///< this one: it has no lease
    std::optional<Connections::iterator> connection;  ///< nullopt: it is unreachable
    Delivery delivery;
  };

  Server(boost::asio::any_io_executor executor, Options options);

  // Connections.
  void accept(Tcp::socket socket, std::string_view received, int version, store::Guest guest);
  Connections::iterator add_connection(StreamSocket socket, std::string address,
                                       std::string_view received, store::Guest guest);
  void on_frame(Connections::iterator connection, std::string_view body);
  void on_connection_lost(Connections::iterator connection, const Error& error);
  void refuse(Connection& connection, const std::string& who, const std::string& sentence);

  // Sessions.
  void on_hello(Connections::iterator connection, const message::Hello& hello);
  std::optional<std::string> refusal(const message::Hello& hello) const;
  NodeId add_agent(const message::Hello& hello);
  void replace_connection(NodeId node, Connections::iterator connection);
  void welcome(Agent& agent, bool resumed, std::uint64_t notifications_received);
  void remove_agent(NodeId node, const std::string& reason);
  void end_session(NodeId node, Agent& agent);
  void forget_session(NodeId node, const std::string& session);

  // Messages to Round, and its notifications.
  void on_message(NodeId node, const Message& message);
  Notifications pass_to_round(NodeId node, Agent& agent, const Message& message);
  void deliver(Notifications notifications);
  void notify_workers(const Notifications& notifications);
  void name_store_host(Notifications& notifications) const;
  void empty_store_for(int round);
  void send(Agent& agent, const Reply& reply) const;
  void report_if_settled();

  // Time.
  void wait_for_deadline();
  void wait_for_evictions();
  void evict(Clock::time_point due);

  boost::asio::any_io_executor executor_;
  Options options_;
  const std::string name_;  ///< of this master, another one after a restart
  Round round_;
  store::Server store_;
  int store_round_ = 0;  ///< the round whose keys the store holds
  Connections connections_;
  std::unordered_map<NodeId, Agent> agents_;
  std::unordered_map<std::string, NodeId> sessions_;
  EvictionQueue evictions_;
  NodeId last_node_ = 0;
  std::string waiting_for_;  ///< for all agents that ask at about the same time
  Clock::time_point waiting_for_made_{};
  std::function<void()> settled_;
  boost::asio::steady_timer deadline_timer_;
  boost::asio::steady_timer eviction_timer_;
  log::LimitedLog log_;
  Listener listener_;
};

}  // namespace ddprun::rendezvous
