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
#include "rendezvous/control_connection.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/listener.h"
#include "rendezvous/protocol.h"
#include "rendezvous/round.h"
#include "rendezvous/stream_socket.h"
#include "rendezvous/unacked_queue.h"
#include "store/server.h"

namespace ddprun::rendezvous {

/// The rendezvous of one job on one port: agents, who find each other through it, and workers, who
/// find the store there. DOES what Round decides, and knows who is in reach.
///
/// An agent whose kernel closed its connection is gone at once. One that is silent, or whose
/// connection broke on the way, is gone when its lease is over and the time that it needs to kill
/// its workers then.
///
/// Destroying it closes every connection.
/// Thread: the executor's.
class Server {
 public:
  struct Options {
    std::string run_id;  ///< agents of another job are refused
    RoundSpec round;
    std::chrono::milliseconds heartbeat{2'000};  ///< between two signs of life of an agent
    std::chrono::milliseconds lease{10'000};     ///< > heartbeat
    /// A failure in words, for the other workers of its round.
    std::function<std::string(const Failure& failure)> loss_text;
  };

  /// Listens on every address of `endpoint`; port 0 takes a free one, the same for all.
  /// Errors: as Listener::listen.
  static Result<std::unique_ptr<Server>> listen(boost::asio::any_io_executor executor,
                                                const Endpoint& endpoint, Options options);

  /// Where it listens first.
  boost::asio::ip::tcp::endpoint address() const { return listener_.address(); }

  /// A connection to this server for the agent of its own process, who leaves out the greeting. It
  /// ends with the server only. Errors: system.
  Result<StreamSocket> connect();

  /// Calls `settled` when the job is over and every agent knows, or is gone.
  void when_settled(std::function<void()> settled);

  /// How the job ended; nullopt: it has not.
  const std::optional<Ending>& ending() const { return round_.ending(); }

  /// For whom everybody waits, as Round::waiting_for; once the job is over, who does not know yet.
  std::string waiting_for();

 private:
  using Clock = std::chrono::steady_clock;
  using Tcp = boost::asio::ip::tcp;
  using Quiet = std::list<NodeId>;

  /// A connection that greeted as an agent.
  struct Line {
    std::string address;         ///< of the other side
    std::optional<NodeId> node;  ///< nullopt: it has not said yet who it is, or was refused
    bool refused = false;
    bool spoke = false;  ///< since its hello
    std::unique_ptr<ControlConnection> connection;
  };
  using Lines = std::list<Line>;

  struct Agent {
    std::string session;
    std::string host;
    bool is_host = false;                 ///< as it said when it joined
    std::optional<Lines::iterator> line;  ///< nullopt: it is out of reach
    UnackedQueue notifications;
    std::uint64_t received = 0;  ///< counted messages of its session
    Clock::time_point heard;
    std::optional<Quiet::iterator> quiet;  ///< nullopt: it is this process and has no lease
  };

  Server(boost::asio::any_io_executor executor, Options options);

  Lines::iterator admit(StreamSocket socket, std::string address, std::string_view received);
  void admit_newcomer(Tcp::socket socket, std::string_view received, int version);
  void on_frame(Lines::iterator line, std::string_view body);
  void on_lost(Lines::iterator line, const Error& error);

  void introduce(Lines::iterator line, const message::Hello& hello);
  std::optional<std::string> refusal(const message::Hello& hello) const;
  void refuse(Line& line, const std::string& who, const std::string& sentence);
  NodeId add_agent(const message::Hello& hello);
  void replace_line(NodeId node, Lines::iterator line);
  void welcome(Agent& agent, bool resumed, std::uint64_t notifications_received);

  void on_message(NodeId node, const Message& message);
  Notifications answer(NodeId node, Agent& agent, const Message& message);
  void gone(NodeId node, const std::string& how);
  void deliver(Notifications notifications);
  void tell_workers(const Notifications& notifications);
  void name_store_host(Notifications& notifications) const;
  void begin_round(int round);
  void renew_lease(Agent& agent);
  void send(Agent& agent, const Reply& reply) const;
  void tell_if_settled();

  void wait_for_deadline();
  void wait_for_silence();
  void on_silence(Clock::time_point due);
  Clock::duration patience() const { return options_.lease + options_.lease / 5; }

  boost::asio::any_io_executor executor_;
  Options options_;
  const std::string name_;  ///< of this master, another one after a restart
  Round round_;
  store::Server store_;
  int store_round_ = 0;  ///< the round whose keys the store holds
  Lines lines_;
  size_t strangers_ = 0;  ///< lines without a node
  std::unordered_map<NodeId, Agent> agents_;
  std::unordered_map<std::string, NodeId> sessions_;
  Quiet quiet_;  ///< agents, the one that was heard longest ago first
  NodeId last_node_ = 0;
  std::string roll_call_;  ///< for everyone who asks at about the same time
  Clock::time_point roll_call_made_{};
  std::function<void()> settled_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer silence_;
  Listener listener_;
};

}  // namespace ddprun::rendezvous
