// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ddprun::store {

/// The source of a connection: a number for an IPv4 address or a network of IPv6.
using SourceNetwork = std::uint64_t;

/// How many connections a port may have.
struct ConnectionLimits {
  std::size_t connections = 16'384;  ///< at most, in all
  std::size_t unproven = 8'192;      ///< of these, without a valid first message
  std::size_t greeted = 1'024;       ///< of these, with the greeting of an agent

  /// The limits for a process that may have `descriptors` open. Some of them are left for its other
  /// needs, such as starting workers: a quarter, at most 1,024.
  static ConnectionLimits of(std::size_t descriptors);
};

/// The connections of a port, by what they have proven. Decides which are closed to make room:
/// strangers before members. Pure, except evict(), which calls the owner's function.
///
/// A connection is unproven until its first valid message makes it a client of the store or a
/// member of the job. Each client of a source may have one silent connection beside it, as old
/// releases of PyTorch do. Unproven ones above that number are the source's excess. With too many
///
///   unproven ones: the oldest one of the source with the greatest excess is closed
///   greeted ones:  the oldest one is closed
///   connections:   the source without a member that has most loses its oldest unproven one, or
///                  else its newest client; if each source has a member, as for unproven ones, if
///                  older than a tick
///
/// Greeted and excess ones also have a limit of time. It is counted in calls of tick(), so that a
/// process that was suspended closes no connection.
class ConnectionSlots {
 public:
  using Id = std::uint64_t;

  /// Ticks in which an agent has to say who it is, and another peer to send something valid.
  static constexpr std::uint64_t kGreetedTicks = 3;
  static constexpr std::uint64_t kUnprovenTicks = 12;

  explicit ConnectionSlots(ConnectionLimits limits) : limits_(limits) {}

  /// Declares that members live at `source`, the host of this process, even if none is connected.
  void add_own_network(SourceNetwork source);

  /// Adds a connection, which is unproven. Ids ascend.
  Id add(SourceNetwork source);
  void remove(Id id);

  /// Sets the function that closes the connection; that also removes it here.
  void on_eviction(Id id, std::function<void()> close);

  void set_greeted(Id id);
  void set_client(Id id);
  void set_member(Id id);

  /// The next connection to close before another can be added; nullopt: there is room.
  std::optional<Id> in_the_way() const;

  /// Whether there is room for another connection.
  bool has_room() const { return all_.size() < limits_.connections; }

  /// The connection to close when the process is out of descriptors; nullopt: none can be closed.
  std::optional<Id> least_wanted() const;

  /// Counts a tick. Returns the connections whose time is over.
  std::vector<Id> tick();

  /// Closes the connection.
  void evict(Id id);

  /// Whether any connection has a limit of time.
  bool is_timed() const { return excess_ > 0 || !greeted_.empty(); }

 private:
  enum class Standing { unproven, greeted, client, member };
  using Ids = std::list<Id>;

  struct Connection {
    SourceNetwork source;
    Standing standing;
    std::uint64_t since;  // tick
    Ids::iterator place;  // among the source's unproven or clients
    Ids::iterator greeted_place;
    std::function<void()> close;
  };

  struct Group {
    Ids unproven;  // oldest first, as is `clients`
    Ids clients;
    std::size_t members = 0;

    std::size_t size() const { return unproven.size() + clients.size() + members; }
    std::size_t excess() const {
      return unproven.size() > clients.size() ? unproven.size() - clients.size() : 0;
    }
  };
  using Groups = std::unordered_map<SourceNetwork, Group>;
  struct Rank {  // of a source: the last rank is closed first
    std::size_t number;
    Id younger_than;  // of sources with equal numbers, the one with the older connection goes first
    SourceNetwork source;
    auto operator<=>(const Rank&) const = default;
  };

  template <class Change>
  void change(SourceNetwork source, Change change);
  void unrank(SourceNetwork source, const Group& group);
  void rank(SourceNetwork source, const Group& group);
  static Rank excess_rank(SourceNetwork source, const Group& group);
  static Rank size_rank(SourceNetwork source, const Group& group);
  void leave(Group& group, Connection& connection);
  void prove(Id id, Standing standing);
  std::optional<Id> oldest_excess() const;

  ConnectionLimits limits_;
  Id next_id_ = 1;
  std::uint64_t now_ = 0;
  std::unordered_map<Id, Connection> all_;
  Groups groups_;
  Ids greeted_;
  std::set<SourceNetwork> own_networks_;
  std::size_t excess_ = 0;
  std::set<Rank> by_excess_;  // sources that have an excess
  std::set<Rank> by_size_;    // sources without a member
};

/// Counts a connection among those of its port until it is destroyed. May be empty.
class ConnectionSlot {
 public:
  ConnectionSlot() = default;
  ConnectionSlot(std::shared_ptr<ConnectionSlots> slots, SourceNetwork source);
  ConnectionSlot(ConnectionSlot&& other) noexcept { *this = std::move(other); }
  ConnectionSlot& operator=(ConnectionSlot&& other) noexcept;
  ~ConnectionSlot();

  /// Sets the function with which the connection's new owner closes it.
  void on_eviction(std::function<void()> close);

  /// The connection sent an agent's greeting; a valid request to the store; a valid hello.
  void is_greeted();
  void is_client();
  void is_member();

 private:
  void release();

  std::shared_ptr<ConnectionSlots> slots_;
  ConnectionSlots::Id id_ = 0;
  bool proven_ = false;
};

}  // namespace ddprun::store
