// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "collectives/agreement/group_context.h"
#include "collectives/backends/cpu/frame.h"
#include "collectives/backends/cpu/listeners.h"

namespace ddp::internal {

/// Thrown by the mesh: the connection with `rank` ended, or there is none.
struct PeerLost : std::exception {
  PeerLost(int of, std::string why) : rank(of), reason(std::move(why)) {}
  const char* what() const noexcept override { return reason.c_str(); }
  int rank;
  std::string reason;
};

/// Thrown by the mesh: `rank` has not come before the deadline.
struct PeerLate : std::exception {
  explicit PeerLate(int of) : rank(of) {}
  const char* what() const noexcept override { return "late"; }
  int rank;
};

/// Thrown by the mesh after abort().
struct MeshStopped : std::exception {
  const char* what() const noexcept override { return "stopped"; }
};

/// The TCP connections of a group's collective calls. A rank connects to another when it first
/// sends to it, and sends on that connection alone. So two ranks have one connection for each
/// direction that is used.
///
/// Data moves as sockets are ready, in both directions at once: no rank depends on how much the
/// kernel buffers for another. A rank that waits for another notices its end, also before that one
/// has connected.
///
/// Thread: one at a time, except accept() and abort().
class CpuMesh {
 public:
  /// A rank may connect, send its last data and end at once. `grace` is how long to wait for such a
  /// connection after the rank's end.
  CpuMesh(const GroupContext& context, const CpuListeners& listeners,
          std::chrono::milliseconds grace = std::chrono::seconds(1));
  CpuMesh(const CpuMesh&) = delete;
  CpuMesh& operator=(const CpuMesh&) = delete;

  int rank() const { return context_.rank; }
  int size() const { return context_.size; }
  const CpuListeners& listeners() const { return listeners_; }

  /// Data for a rank, in two parts.
  struct Sending {
    int rank = 0;
    std::array<std::span<const char>, 2> parts = {};
    std::size_t done = 0;
    bool is_ready = true;  ///< worth a try; only move() uses it
    bool is_done() const { return done == parts[0].size() + parts[1].size(); }
  };

  /// Data from a rank. When `bytes` have come, `more` (if set) is asked once how many follow.
  struct Receiving {
    int rank = 0;
    char* data = nullptr;
    std::size_t bytes = 0;
    std::function<std::size_t()> more = {};
    std::size_t done = 0;
    bool is_ready = true;  ///< worth a try; only move() uses it
    bool is_done() const { return done == bytes && !more; }
  };

  /// Returns when all is sent and received. At most one of each for a rank. Throws PeerLost,
  /// PeerLate, MeshStopped, and std::system_error.
  void move(std::span<Sending> out, std::span<Receiving> in);

  /// The same for one of each.
  void swap(const Sending& out, const Receiving& in);

  /// Sets when move() throws PeerLate; nullopt: never.
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) {
    deadline_ = deadline;
  }

  /// Adds a connection on which `from` sends. Thread: any.
  void accept(int from, ddprun::Fd socket);

  /// Shuts down every connection: move() throws here, and on ranks that wait for it. Thread: any.
  void abort() noexcept;

  /// Closes all connections: there is nothing more to move. Others get what was sent.
  void close() noexcept;

 private:
  struct End {
    std::chrono::steady_clock::time_point since;
    std::string reason;
  };
  /// Small: there is one for each rank of the group, and most are never used.
  struct Link {
    ddprun::Fd out;
    ddprun::Fd in;
    std::uint8_t greeted = 0;         // bytes of the greeting already sent
    std::unique_ptr<End> ended = {};  // the end of `out`, if there is no `in`
    bool greets() const { return out && greeted < sizeof(Frame); }
  };

  Link& link(int rank) { return links_[static_cast<std::size_t>(rank)]; }
  void reach(int rank);
  void connect(int rank);
  void greet(int rank);
  void greet_late();
  void drop(int rank);
  void watch(int rank);
  bool move_some(std::span<Sending> out, std::span<Receiving> in);
  bool send_some(Sending& sending);
  bool receive_some(Receiving& receiving);
  void take_arrived();
  void wait(std::span<Sending> out, std::span<Receiving> in);
  void look_for_end(int rank, short events);
  int wait_time(int rank) const;
  short watched_events(int rank);
  void throw_if_stopped() const;

  const GroupContext& context_;
  const CpuListeners& listeners_;
  const std::chrono::milliseconds grace_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  std::vector<pollfd> polled_;
  std::vector<int> ungreeted_;  // ranks whose connection has not sent its greeting yet
  ddprun::Fd wake_;             // an eventfd
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;  // protects what follows, where abort() may meet changes
  std::vector<Link> links_;
  std::vector<std::pair<int, ddprun::Fd>> arrived_;
};

}  // namespace ddp::internal
