// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "agent/job/job_spec.h"
#include "agent/mpi/mpi_line.h"
#include "base/error.h"
#include "base/fd.h"
#include "launcher/process/spawn.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// Connects this node's ranks of MPI in a round, for the agent: starts their MpiServer, connects
/// them to it, and learns from it what they did.
///
/// Destroying it ends the MpiServer. Thread: the executor's.
class MpiRound {
 public:
  struct Hooks {
    std::function<void(const std::string& cause)> failed;  ///< the round cannot go on
    std::function<void(int local_rank)> overdue;           ///< it runs on long after its MPI_Abort
  };

  /// `job` must outlive it.
  MpiRound(const boost::asio::any_io_executor& executor, const JobSpec& job,
           const rendezvous::Layout& layout, Hooks hooks);

  /// Starts the server, which finds those of other nodes by the round's `store`, and calls `ready`,
  /// once, when the workers may be started. Errors: system.
  void start(const rendezvous::Endpoint& store, std::function<void(Result<>)> ready);

  /// Whether `ready` is still to be called.
  bool is_starting() const { return ready_ != nullptr; }

  /// Connects a worker that is to be started to the server.
  void connect(launcher::Command& command, int local_rank) const;

  /// The workers were started.
  void close_their_ends() { worker_ends_.clear(); }

  /// The rank's process has ended: calls `known` when of() has all that it did, once.
  void ended(int local_rank, std::function<void()> known);

  /// The rank is_survivable(): tells the others that it is lost, and then calls `known`, once, with
  /// whether any other rank is left.
  void lost(int local_rank, std::function<void(bool others)> known);

  /// Calls what waits to be called; nothing more will be known.
  void give_up();

  /// All ranks have ended: the server ends when nothing waits for it.
  void finish();

  const MpiRank& of(int local_rank) const { return ranks_[static_cast<size_t>(local_rank)]; }

  /// Adds to where a rank is in a hang that it waits in MPI_Init for others of its node, or they
  /// for it.
  void describe(int local_rank, rendezvous::WorkerPlace& place) const;

 private:
  struct Waiting {
    int local_rank;
    std::function<void(int code)> known;
  };

  Result<> make_sockets();
  Result<> start_server(const rendezvous::Endpoint& store);
  void be_ready(Result<> result);
  void read();
  void on_line(const std::string& line);
  void on_aborted(int local_rank, int code);
  void ask(MpiQuestion question, int local_rank, std::function<void(int code)> known);
  void on_known(const MpiNews& news);
  void on_server_ended();

  const JobSpec& job_;
  const rendezvous::Layout layout_;
  const Hooks hooks_;
  std::function<void(Result<>)> ready_;
  std::vector<std::string> variables_;  // of each worker
  std::vector<Fd> worker_ends_;
  std::vector<Fd> server_ends_;
  std::optional<launcher::SpawnBatch> batch_;
  boost::asio::posix::stream_descriptor control_;
  std::shared_ptr<std::string> lines_ = std::make_shared<std::string>();  // a read keeps it, too
  boost::asio::steady_timer overdue_;
  std::vector<MpiRank> ranks_;
  std::vector<Waiting> waiting_;
  bool is_finishing_ = false;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // queued handlers look for it
};

}  // namespace ddprun::agent
