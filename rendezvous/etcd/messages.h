// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/error.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

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
struct Keys {
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

using Answer = std::variant<answer::Keys, answer::Granted, answer::Created, answer::Renewed,
                            answer::Written, answer::Revoked>;

// The requests as etcd's JSON gateway takes them (/v3, etcd 3.4 and later): keys and values in
// base64, 64-bit numbers as texts, and zero and false values left out.

/// One HTTP request: POST `body` to `path`.
struct Post {
  std::string path;
  std::string body;
};

/// Makes the request. `job` is the job's id, `master` the value of the key that Create makes.
Post encode(const Request& request, std::string_view job, std::string_view master);

/// The answer to `request`. Errors: protocol.
Result<Answer> decode(const Request& request, std::string_view body);

/// A request for a token, which later requests carry.
Post encode_login(std::string_view user, std::string_view password);
/// Errors: protocol.
Result<std::string> decode_login(std::string_view body);

/// The error in an answer other than 200; empty: unknown.
std::string decode_error(std::string_view body);

/// The meaning of an answer other than 200.
struct Refusal {
  enum class Kind {
    server,   ///< this server cannot answer, or is no etcd: another one may
    token,    ///< etcd does not know the token any more: a new one may help
    lasting,  ///< it refuses ddprun until somebody changes that
    request,  ///< it has refused this request
  };
  Kind kind;
  std::string sentence;  ///< follows the name of the server
};

/// Judges such an answer. `user`: the name that ddprun gave; empty: none.
Refusal judge_refusal(unsigned status, std::string_view body, const std::string& user);
/// The value of the master's key: the master's address.
std::string encode_master(const Endpoint& master);
/// Errors: protocol.
Result<Endpoint> decode_master(std::string_view value);

/// The value of the state's key.
std::string encode_state(const JobState& state);
/// Errors: protocol.
Result<JobState> decode_state(std::string_view value);

}  // namespace ddprun::rendezvous::etcd
