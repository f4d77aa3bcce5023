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

/// Where a connection comes from: a number for an IPv4 address or a network of IPv6.
using Site = std::uint64_t;

/// How many connections a port may have.
struct GuestLimits {
  std::size_t connections = 16'384;  ///< in all
  std::size_t unproven = 8'192;      ///< of those, without a valid first message
  std::size_t greeted = 1'024;       ///< of those, with the greeting of an agent

  /// Those of a process that may have `descriptors` open. Some are left for its other needs, such
  /// as starting workers: a quarter, at most 1,024.
  static GuestLimits of(std::size_t descriptors);
};

/// The connections of a port by what they have proven, and which of them are closed to make room,
/// strangers before members. Pure, but for evict(), which calls what the owner gave.
///
/// A connection is unproven until its first valid message makes it a client of the store or a
/// member of the job. Each client of a site may have one silent connection beside it, as old
/// releases of PyTorch do; unproven ones above that number are the site's excess. When there are
/// too many
///
///   unproven ones: the oldest goes, of the site with the greatest excess
///   greeted ones:  the oldest goes
///   connections:   of the site without a member that has most, the oldest unproven one, else the
///                  newest client; else as for unproven ones, if it is older than a tick
///
/// and each has a limit of time. Time is counted in calls of tick(), so that a process that was
/// suspended closes none.
class Guests {
 public:
  using Id = std::uint64_t;

  /// Ticks within which an agent has to say who it is, and any other to send anything valid.
  static constexpr std::uint64_t kGreetedTicks = 3;
  static constexpr std::uint64_t kUnprovenTicks = 12;

  explicit Guests(GuestLimits limits) : limits_(limits) {}

  /// Members live there, though none of them may be connected: the host of this process.
  void add_home(Site site);

  /// A new connection, which is unproven. Ids ascend.
  Id add(Site site);
  void remove(Id id);

  /// `close` closes the connection, and removes it here.
  void on_eviction(Id id, std::function<void()> close);

  void set_greeted(Id id);
  void set_client(Id id);
  void set_member(Id id);

  /// The next connection to close before another one can be added; nullopt: there is room.
  std::optional<Id> in_the_way() const;

  /// Whether there is room for another one.
  bool has_room() const { return all_.size() < limits_.connections; }

  /// The connection to close when the process is out of descriptors; nullopt: none can be.
  std::optional<Id> least_wanted() const;

  /// Some time has passed: the connections whose time is over.
  std::vector<Id> tick();

  /// Closes it.
  void evict(Id id);

  /// Whether any connection has a limit of time.
  bool is_timed() const { return excess_ > 0 || !greeted_.empty(); }

 private:
  enum class Standing { unproven, greeted, client, member };
  using Ids = std::list<Id>;

  struct Connection {
    Site site;
    Standing standing;
    std::uint64_t since;  // tick
    Ids::iterator place;  // among the site's unproven or clients
    Ids::iterator greeted_place;
    std::function<void()> close;
  };

  struct Group {
    Ids unproven;  // oldest first, as below
    Ids clients;
    std::size_t members = 0;

    std::size_t size() const { return unproven.size() + clients.size() + members; }
    std::size_t excess() const {
      return unproven.size() > clients.size() ? unproven.size() - clients.size() : 0;
    }
  };
  using Groups = std::unordered_map<Site, Group>;
  struct Rank {  // of a site: the last one goes first
    std::size_t number;
    Id younger_than;  // where numbers are equal the site with the older connection goes first
    Site site;
    auto operator<=>(const Rank&) const = default;
  };

  template <class Change>
  void change(Site site, Change change);
  void unrank(Site site, const Group& group);
  void rank(Site site, const Group& group);
  static Rank excess_rank(Site site, const Group& group);
  static Rank size_rank(Site site, const Group& group);
  void leave(Group& group, Connection& connection);
  void prove(Id id, Standing standing);
  std::optional<Id> oldest_excess() const;

  GuestLimits limits_;
  Id next_id_ = 1;
  std::uint64_t now_ = 0;
  std::unordered_map<Id, Connection> all_;
  Groups groups_;
  Ids greeted_;
  std::set<Site> homes_;
  std::size_t excess_ = 0;
  std::set<Rank> by_excess_;  // sites that have any
  std::set<Rank> by_size_;    // sites without a member
};

/// One connection's place among the guests of its port: gone with it. An empty one is no guest.
class Guest {
 public:
  Guest() = default;
  Guest(std::shared_ptr<Guests> guests, Site site);
  Guest(Guest&& other) noexcept { *this = std::move(other); }
  Guest& operator=(Guest&& other) noexcept;
  ~Guest();

  /// The connection belongs to someone else now, who closes it so.
  void on_eviction(std::function<void()> close);

  /// It sent an agent's greeting; a valid request to the store; a valid hello.
  void is_greeted();
  void is_client();
  void is_member();

 private:
  void release();

  std::shared_ptr<Guests> guests_;
  Guests::Id id_ = 0;
  bool proven_ = false;
};

}  // namespace ddprun::store
