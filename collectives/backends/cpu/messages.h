// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/fd.h"
#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/connections.h"
#include "collectives/backends/cpu/listeners.h"
#include "collectives/backends/cpu/peer.h"
#include "collectives/backends/cpu/reception.h"
#include "collectives/backends/cpu/rings.h"
#include "collectives/backends/shm/other_memory.h"
#include "collectives/backends/shm/ring.h"
#include "ddp/error.h"

namespace ddp::internal {

/// Messages between two ranks (send, recv, batch_send_recv). They progress in the background,
/// beside the collective calls.
///
/// They have their own connections, apart from the mesh's. The first message between two ranks
/// connects them, if they are not of one node. One thread reads, and writes what a socket did not
/// take at once; the sending thread writes short messages.
///
/// Ranks of one node are connected from the beginning, so that each sees the other's end: memory
/// does not show it. After their first message they continue in rings (ShmRing). Then the
/// connection only wakes the other rank, and shows its end. Threads that wait for a message read
/// and write the rings themselves, and spin for a moment. While some do, and for a moment longer,
/// the other ranks need not wake this one (CpuRings). Long messages are read in the sender's memory
/// if the kernel allows it.
///
/// The first failure fails all messages, once the group has agreed on its error.
///
/// Thread: any, several at once.
class CpuMessages {
 public:
  /// Called in any thread.
  struct Events {
    /// The first failure detected here; called once.
    std::function<void(const Error& error)> failed;

    /// A connection for CpuMesh::accept().
    std::function<void(int from, ddprun::Fd socket)> on_calls;

    /// The connection to a rank ended: the rank has left, is lost, or has failed. Must be brief.
    std::function<void(int rank)> ended;
  };

  /// Accepts connections at this rank's listener.
  CpuMessages(GroupContext& context, CpuListeners& listeners, Events events);
  CpuMessages(const CpuMessages&) = delete;
  CpuMessages& operator=(const CpuMessages&) = delete;

  /// Fails the messages that are not complete.
  ~CpuMessages();

  /// Connects to these ranks, whether there are messages or not; has no effect for this rank.
  void connect(const std::vector<int>& ranks);

  /// Whether the connection to a rank has ended.
  bool has_ended(int rank);

  /// Moves messages within the node through these rings from now on, once both ranks have them.
  void use_rings(ShmRings rings);

  /// Moves what is in the rings until the call is complete, or nothing has come for a while; from
  /// then on the other ranks wake this one.
  void move_until_complete(const MessageCall& call, std::chrono::steady_clock::time_point deadline);

  /// Sets the timeout of messages that begin from now on; before, it is the context's.
  void set_timeout(std::chrono::milliseconds timeout);

  /// Moves a message if it is short, and uses a ring that both ranks look at often; else does
  /// nothing and returns false.
  bool run_now(const Transfer& message);

  /// Begins all messages of the task at once.
  std::shared_ptr<AsyncCall> begin(const Task& task);

  /// See Backend::probe().
  std::optional<int> probe(int tag);

  /// Fails all messages, begun or later.
  void fail(const Error& error) noexcept;

  /// Waits for the messages that were begun.
  void finish();

  /// After that: notifies the ranks that exchanged messages with this one that no more follow.
  /// Waits until the notices are written, and so everything before them.
  void say_goodbye();

 private:
  template <class F>
  void run_locked(const F& work);
  template <class F>
  void run(std::unique_lock<std::mutex>& lock, const F& work);
  void begin_from(MessageAt next);
  CpuPeer::Events events_of_peer(int other);
  CpuReception::Events events_of_reception();
  bool send_now(const Transfer& transfer);
  bool receive_now(const Transfer& transfer);
  CpuPeer& peer(int other);
  template <class F>
  std::optional<int> find_peer(const F& is_it) const;
  bool have_all_left() const;

  void complete(MessageAt message);
  std::optional<MessageAt> oldest_with(int other);
  void stop(std::function<Error()> agree);
  void stop_on_mismatch(MessageAt message, const std::string& theirs);
  void stop_on_loss(int other, const std::string& reason);
  void stop_on_no_sender(int tag, std::optional<int> lost);
  void stop_on_leave(MessageAt message, const std::string& more);
  void stop_on_listener_failure(const std::string& reason);
  void stop_on_overflow(int other, std::size_t kept, std::int32_t tag);
  void stop_on_timeout(MessageAt message);
  void check_deadline();
  std::string text_of(MessageAt message) const;
  std::string peer_of(MessageAt message) const;

  GroupContext& context_;
  const CpuListeners& listeners_;
  const Events events_;
  boost::asio::io_context io_context_{1};
  boost::asio::steady_timer timer_;
  const RunLocked run_locked_ = [this](const std::function<void()>& work) { run_locked(work); };
  const std::shared_ptr<MessageRoom> room_ = std::make_shared<MessageRoom>();

  std::mutex mutex_;  // protects all that follows
  std::condition_variable changed_;
  std::pmr::unsynchronized_pool_resource memory_;  // of messages under way
  Messages open_;                                  // in the order in which they were begun
  MemoryMark own_memory_;
  std::vector<std::unique_ptr<CpuPeer>> peers_;  // by rank; null until the first message
  std::chrono::milliseconds timeout_;
  bool is_finished_ = false;  // ranks that send a first message later get the bye, too
  bool timer_runs_ = false;
  std::function<Error()> agree_;  // set by stop(); gets the agreed error from the store
  bool agreeing_ = false;         // agree_ is running, without the lock
  std::optional<Error> failure_;
  const Error group_ends_;  // made early: when the group ends, there may be no memory left for it
  CpuRings rings_;
  CpuReception reception_;
  std::thread thread_;
};

}  // namespace ddp::internal
