// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/etcd/election.h"

namespace ddprun::rendezvous::etcd {

/// The part of etcd that an election uses.
class EtcdModel {
 public:
  using Time = Election::Time;

  /// The answer; nullopt: an error.
  std::optional<Answer> apply(const Request& request, const std::string& value, Time now) {
    return std::visit([&](const auto& r) { return on(r, value, now); }, request);
  }

  /// Ends leases that are over, each now or later.
  template <class Chance>
  void expire(Time now, Chance chance) {
    for (auto lease = leases_.begin(); lease != leases_.end();) {
      const bool goes = lease->second.end <= now && chance();
      if (goes && master && master->lease == lease->first) expired.push_back(master->value);
      if (goes) drop(lease->first);
      lease = goes ? leases_.erase(lease) : std::next(lease);
    }
  }

  std::optional<Holder> master;
  std::optional<Recorded> state;
  std::vector<std::string> expired;  // the values of keys that expired with their lease
  int refused_writes = 0;

 private:
  struct Lease {
    std::chrono::seconds ttl;
    Time end;
  };
  using Reply = std::optional<Answer>;

  Reply on(const request::Look&, const std::string&, Time) { return answer::Keys{master, state}; }
  Reply on(const request::Grant& grant, const std::string&, Time now) {
    leases_[++last_] = {grant.ttl, now + grant.ttl};
    return answer::Granted{last_, grant.ttl};
  }
  Reply on(const request::Create& create, const std::string& value, Time) {
    if (!leases_.contains(create.lease)) return std::nullopt;
    if (master) return answer::Keys{master, state};
    master = Holder{create.lease, ++revision_, value};
    return answer::Created{revision_, state};
  }
  Reply on(const request::Renew& renew, const std::string&, Time now) {
    const auto lease = leases_.find(renew.lease);
    if (lease == leases_.end()) return answer::Renewed{std::chrono::seconds(0)};
    lease->second.end = now + lease->second.ttl;
    return answer::Renewed{lease->second.ttl};
  }
  Reply on(const request::Record& record, const std::string&, Time) {
    const bool ours = master && master->epoch == record.epoch;
    if (!ours) ++refused_writes;
    if (!ours || record.after != (state ? state->revision : 0)) return answer::Keys{master, state};
    if (!leases_.contains(record.lease)) return std::nullopt;
    state = Recorded{record.lease, ++revision_, record.state};
    return answer::Written{revision_};
  }
  Reply on(const request::Revoke& revoke, const std::string&, Time) {
    drop(revoke.lease);
    leases_.erase(revoke.lease);
    return answer::Revoked{};
  }
  void drop(LeaseId lease) {
    if (master && master->lease == lease) master.reset();
    if (state && state->lease == lease) state.reset();
  }

  std::map<LeaseId, Lease> leases_;
  LeaseId last_ = 100;
  Epoch revision_ = 0;
};

}  // namespace ddprun::rendezvous::etcd
