// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "base/error.h"
#include "rendezvous/etcd/election.h"
#include "rendezvous/etcd/gateway.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/boot_timer.h"
#include "rendezvous/net/endpoint.h"

namespace ddprun::rendezvous::etcd {

/// This node in the election of the job's master by etcd: finds the master, or becomes it. DOES
/// what Election decides.
///
/// Destroying it does not delete its key, which lasts until its lease ends; no hook is called any
/// more.
class Candidate {
 public:
  struct Options {
    Gateway::Options etcd;
    std::string run_id;
    std::chrono::milliseconds lease{0};  ///< of nodes
    std::string host;                    ///< its address for others; empty: as etcd sees it
    std::uint16_t port = 0;              ///< the master's, if it is here; 0: any free one
  };

  struct Hooks {
    /// This node was elected: it hosts the master at `where` from now on. On an error it resigns.
    std::function<Result<>(const Endpoint& where, const JobState& state)> lead;
    /// The state was written.
    std::function<void()> recorded;
    /// The state is not written yet; the attempts continue.
    std::function<void(const std::string& reason)> delayed;
    /// This node is not the master any more; may be called within a call of ours.
    std::function<void(const std::string& reason)> stepped_down;
  };
  using Found = std::function<void(Result<Endpoint>)>;

  Candidate(const boost::asio::any_io_executor& executor, Options options, Hooks hooks);

  /// Finds the master. If there is none, this node may become it. Calls `found` later, but not that
  /// of an earlier call. Errors: with the reason; usage if etcd refuses ddprun until somebody
  /// changes that, else unreachable.
  void find(Found found);

  /// Writes the state, for the master only, and one at a time; `recorded` or `stepped_down`
  /// follows.
  void record(const JobState& state);

  /// Ends this node's part. If it was the master, another one can be elected at once. Calls `done`
  /// when etcd has answered, or does not answer.
  void resign(std::function<void()> done);

 private:
  static BootClock::time_point now() { return BootClock::now(); }

  void perform(const ElectionActions& actions);
  void perform(const election_action::Ask& ask);
  void perform(const election_action::Found& found);
  void perform(const election_action::NotFound& not_found) {
    tell(Error{failed_with_, not_found.reason});
  }
  void perform(const election_action::Lead& lead);
  void perform(const election_action::Done&) { hooks_.recorded(); }
  void perform(const election_action::Delayed& delayed) { hooks_.delayed(delayed.reason); }
  void perform(const election_action::StepDown& step) { hooks_.stepped_down(step.reason); }

  Result<> choose_place();
  void on_answer(std::uint64_t number, const Request& request, Result<std::string> body);
  void tell(Result<Endpoint> where);

  boost::asio::any_io_executor executor_;
  Options options_;
  Hooks hooks_;
  Election election_;
  std::optional<Endpoint> place_;  // the place of a master here
  Found found_;
  std::function<void()> resigned_;
  std::optional<std::uint64_t> revoke_;   // the number of the last request
  Errc failed_with_ = Errc::unreachable;  // if the last request failed
  Gateway gateway_;
  BootTimer timer_;
};

}  // namespace ddprun::rendezvous::etcd
