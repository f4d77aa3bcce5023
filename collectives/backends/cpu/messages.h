// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/fd.h"
#include "collectives/backends/cpu/connections.h"
#include "collectives/backends/cpu/listeners.h"
#include "collectives/backends/cpu/peer.h"
#include "collectives/backends/group_context.h"
#include "collectives/backends/shm/ring.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Messages between two ranks (send, recv, batch_send_recv). They progress in the background,
/// beside the calls of all ranks.
///
/// They have connections of their own, apart from those of the mesh. A rank connects to another
/// with the first message between them. One thread reads, and writes what a socket did not take at
/// once; short messages are written by the thread that sends them.
///
/// Ranks of one node go on in rings (ShmRing) then; the connection remains for its end, and to wake
/// the other rank. Threads that wait for a message read and write the rings themselves, and spin
/// for a moment; the other ranks need not wake this one as long as some do, and for a moment
/// longer.
///
/// The first failure fails all messages, once the group's agreed error about it is known.
///
/// Thread: any, several at once.
class CpuMessages {
 public:
  /// Accepts connections at this rank's listener. `on_failure` is called once, in any thread, with
  /// the first failure that is detected here; `on_calls` gets the connections for
  /// CpuMesh::accept().
  CpuMessages(GroupContext& context, CpuListeners& listeners,
              std::function<void(const Error& error)> on_failure,
              std::function<void(int from, ddprun::Fd socket)> on_calls);
  CpuMessages(const CpuMessages&) = delete;
  CpuMessages& operator=(const CpuMessages&) = delete;

  /// Fails the messages that are not complete.
  ~CpuMessages();

  /// Messages with other ranks of this node go through these rings from now on, once both ranks
  /// have them.
  void use_rings(ShmRings rings);

  /// Moves what is in the rings until the call is complete, or nothing has come for a while: then
  /// the other ranks wake this one.
  void move_until_complete(const MessageCall& call, std::chrono::steady_clock::time_point deadline);

  /// Of messages that are begun from now on; that of the context before.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Does the task if it is one short message, and goes through a ring that both ranks look at
  /// often; else false, and nothing was done.
  bool run_now(const Task& task);

  /// Begins all messages of the task at once.
  std::shared_ptr<AsyncCall> begin(const Task& task);

  /// Fails all messages, begun or still to come.
  void fail(const Error& error) noexcept;

  /// Waits for the messages that were begun, then notifies the other ranks that no more follow.
  void finish();

  /// After finish(): waits until the ranks that there were messages with have done so, too, or are
  /// gone. For a group in which nothing else makes them wait for each other.
  void wait_for_others();

 private:
  /// A connection that was accepted. Its first frame identifies the sender: `peer` is set by a
  /// hello, `watches` by a watch.
  struct Accepted {
    std::shared_ptr<RecvConnection> connection;
    CpuPeer* peer = nullptr;
    int rank = -1;  ///< of `peer`
    bool watches = false;
    bool is_identified() const { return peer != nullptr || watches; }
  };

  template <class F>
  void run_locked(const F& work);
  void accept();
  void limit_unidentified();
  void add_connection(boost::asio::ip::tcp::socket socket);
  bool on_frame(Accepted& accepted, const Frame& frame, const char* data);
  CpuPeer::Events events_of_peer(int other);
  bool on_first_frame(Accepted& accepted, const Frame& frame);
  void offer_ring(const Accepted& accepted);
  void turn_to_ring(int other);
  bool send_now(const Transfer& transfer);
  bool receive_now(const Transfer& transfer);
  bool move_in_rings();
  void read_ring_of(const CpuPeer* sender);
  void set_awake(bool awake);
  void watch_idleness();
  CpuPeer& peer(int other);

  void complete(MessageAt message);
  std::optional<MessageAt> oldest_with(int other);
  void stop(std::function<Error()> agree);
  void stop_on_mismatch(MessageAt message, const std::string& theirs);
  void stop_on_loss(int other, const std::string& reason);
  void stop_on_listener_failure(const std::string& reason);
  void stop_on_overflow(int other, std::size_t kept, std::int32_t tag);
  void stop_on_timeout(MessageAt message);
  void check_deadline();
  std::string text_of(MessageAt message) const;
  std::string peer_of(MessageAt message) const;

  GroupContext& context_;
  const CpuListeners& listeners_;
  const std::uint64_t token_;
  const std::function<void(const Error& error)> on_failure_;
  const std::function<void(int from, ddprun::Fd socket)> on_calls_;
  boost::asio::io_context io_context_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer timer_;
  boost::asio::steady_timer idle_timer_;
  const std::shared_ptr<MessageRoom> room_ = std::make_shared<MessageRoom>();

  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  Messages open_;  // in the order in which they were begun
  std::list<Accepted> accepted_;
  std::vector<std::unique_ptr<CpuPeer>> peers_;  // by rank; null until there is a message
  std::chrono::milliseconds timeout_;
  bool is_finished_ = false;  // so ranks that send a first message later get the bye, too
  bool timer_runs_ = false;
  std::optional<ShmRings> rings_;
  std::vector<std::shared_ptr<RecvConnection>> ringed_;  // those that have a ring
  std::vector<RecvConnection*> ring_of_;                 // the one of a rank, or null
  std::vector<CpuPeer*> ring_writers_;                   // to whom this rank writes in one
  std::vector<char> are_offered_;  // by rank, whether that one reads a ring of ours
  int movers_ = 0;                 // threads in move_until_complete()
  bool awake_ = false;             // the rings are looked at often: nobody has to wake this rank
  bool is_idle_ = true;            // they were not, since the timer was set
  bool watches_idleness_ = false;  // the timer runs
  std::function<Error()> agree_;   // set by stop(): gets the agreed error from the store
  bool agreeing_ = false;          // agree_ is running, without the lock
  std::optional<Error> failure_;
  std::thread thread_;
};

}  // namespace ddp::internal
