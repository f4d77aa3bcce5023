// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

// Requests to etcd, and the answers. A job has two keys there: its master's, which lives as long as
// the master's lease in etcd, and its state, which outlives the lease. Pure.

namespace ddprun::rendezvous::etcd {

using LeaseId = std::int64_t;

/// The revision at which the master's key was made: each election has its own.
using Epoch = std::int64_t;

/// The revision at which a key was written last; 0: there is none.
using Revision = std::int64_t;

namespace request {

/// Reads the master's name and the state of the job.
struct Look {};
/// A new lease.
struct Grant {
  std::chrono::seconds ttl;
};
/// Make the master's key, with this lease, if there is none.
struct Create {
  LeaseId lease;
};
/// Let the lease last its whole time again.
struct Renew {
  LeaseId lease;
};
/// Write the state of the job, with this lease, if the master's key is the one of `epoch` and the
/// state was last written at revision `after`: so a delayed request undoes nothing.
struct Record {
  Epoch epoch;
  Revision after;
  LeaseId lease;
  std::string state;
};
/// End the lease, and with it the keys that have it.
struct Revoke {
  LeaseId lease;
};

}  // namespace request

using Request = std::variant<request::Look, request::Grant, request::Create, request::Renew,
                             request::Record, request::Revoke>;

/// The master's key.
struct Holder {
  LeaseId lease = 0;
  Epoch epoch = 0;
  std::string value;  ///< the master's address
};

/// The state's key.
struct Recorded {
  LeaseId lease = 0;
  Revision revision = 0;
  std::string state;
};

namespace answer {

/// The answer to Look, and to a Create or Record that had no effect.
struct Seen {
  std::optional<Holder> master;
  std::optional<Recorded> state;
};
struct Granted {
  LeaseId lease;
  std::chrono::seconds ttl;  ///< may be longer than asked for
};
struct Created {
  Epoch epoch;
  std::optional<Recorded> state;
};
struct Renewed {
  std::chrono::seconds ttl;  ///< 0: the lease is over
};
struct Written {
  Revision revision;
};
struct Revoked {};

}  // namespace answer

using Answer = std::variant<answer::Seen, answer::Granted, answer::Created, answer::Renewed,
                            answer::Written, answer::Revoked>;

}  // namespace ddprun::rendezvous::etcd
