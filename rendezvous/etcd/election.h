// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/boot_clock.h"
#include "rendezvous/etcd/messages.h"

// DECIDES which node is the job's master, by a key in etcd that only one can make. Pure: no socket,
// no timer, no clock. Candidate performs the actions.
//
// A node looks at the key when it needs a master. If there is no key, it takes a lease and makes
// the key; the node that made it is the master. If an answer is lost, it is unknown what was done.
// But the key names its lease, so a node that finds its own lease there knows that it is the
// master.
//
// The key vanishes if its lease was not renewed for its time to live, three leases of nodes. A
// master steps down when half of that has passed since it *sent* the last answered renewal. So 1.5
// leases remain for the leases that it has given to nodes: they are over, and the workers of its
// rounds are killed, before the key can vanish and another node can be elected. Like the leases of
// nodes, this compares no clocks, and each event first looks whether that time has come.
//
// With each renewal the master looks whether its key is still there: somebody may have deleted it.
// If a clock or a lease is wrong nevertheless, the state protects the job: the master writes it
// before it announces a round or the end, and only if the key is still the one of this election.

namespace ddprun::rendezvous::etcd {

namespace election_action {

/// answered() or failed() follows, with the same number.
struct Ask {
  std::uint64_t number;
  Request request;
};
/// The answer to look().
struct Found {
  std::optional<std::string> master;  ///< the value of its key; nullopt: this node is the master
};
/// The answer to look(): try later.
struct NotFound {
  std::string reason;
};
/// This node is the master from now on.
struct Lead {
  std::string state;  ///< written by earlier masters; empty: none
};
/// The answer to record().
struct Done {};
/// The write takes a while: it is tried again until it succeeds, or StepDown. At most once for each
/// record().
struct Delayed {
  std::string reason;
};
/// This node is not the master any more.
struct StepDown {
  std::string reason;
};

}  // namespace election_action

using ElectionAction =
    std::variant<election_action::Ask, election_action::Found, election_action::NotFound,
                 election_action::Lead, election_action::Done, election_action::Delayed,
                 election_action::StepDown>;
using ElectionActions = std::vector<ElectionAction>;

/// One node's part in the election.
class Election {
 public:
  using Time = BootClock::time_point;

  /// `lease`: the nodes' lease.
  explicit Election(std::chrono::milliseconds lease);

  /// Finds the master. If there is none, this node becomes it. Several calls get one answer.
  ElectionActions look(Time now);

  /// Writes the state of the job, for the master only, and one at a time. Done or StepDown follows.
  ElectionActions record(std::string state, Time now);

  /// Ends this node's part; a master may be elected at once. No answer is needed.
  ElectionActions resign();

  ElectionActions answered(std::uint64_t number, const Answer& answer, Time now);

  /// The request got no answer, or an error: it may have been done, or be done later.
  ElectionActions failed(std::uint64_t number, const std::string& reason, Time now);

  /// Call it at `deadline`; harmless at any other time.
  ElectionActions tick(Time now);

  /// When `tick` has something to do; nullopt: not before another event.
  std::optional<Time> deadline() const;

  /// The time to live of the master's key.
  std::chrono::seconds ttl() const { return ttl_; }

  /// The pause between two renewals, and between two attempts of the same request.
  BootClock::duration pause() const { return BootClock::duration(ttl_) / 10; }

 private:
  struct Lease {
    LeaseId id;
    Time limit;  ///< the end of its use here
  };
  struct Pending {
    std::uint64_t number;
    Time sent;
  };

  template <class Action>
  void act(Action action) {
    actions_.emplace_back(std::move(action));
  }
  ElectionActions take() { return std::exchange(actions_, {}); }
  Pending ask(Request request, Time now);
  void not_found(std::string reason);
  void found(std::optional<std::string> master);

  void campaign(Time now);
  void take_keys(const answer::Keys& keys, Time now);
  void take_search_answer(const Answer& answer, Time sent, Time now);
  void lead(Epoch epoch, const std::optional<Recorded>& state, Time now);
  void renew(Time now);
  void take_renewed(std::chrono::seconds ttl, Time sent, Time now);
  void take_look_answer(const Answer& answer);
  void write(Time now);
  void take_write_answer(const Answer& answer, Time now);
  void was_written(const Recorded& state);
  void write_after(Revision latest, Time now);
  void written(Revision revision);
  void step_down(const std::string& reason);
  void forget();
  void end_if_over(Time now);

  const std::chrono::seconds ttl_;
  ElectionActions actions_;
  std::uint64_t last_number_ = 0;

  bool asked_ = false;             // look() has no answer yet
  std::optional<Pending> search_;  // Look, Grant or Create
  std::optional<Lease> lease_;     // our key's, or that of the key that we try to make

  std::optional<Epoch> epoch_;  // the master is this node
  std::optional<Pending> renewal_;
  std::optional<Pending> look_;  // checks that the key is still there
  Time next_renewal_{};
  Revision state_revision_ = 0;
  std::optional<LeaseId> state_lease_;
  std::optional<Pending> state_renewal_;
  std::optional<std::string> state_;  // to be written
  std::optional<Pending> write_;      // Grant for the state's lease, or Record
  std::optional<Time> next_write_;    // the last attempt failed
  bool is_delay_reported_ = false;
  std::string trouble_;  // why the last renewal failed
};

}  // namespace ddprun::rendezvous::etcd
