// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "rendezvous/etcd/requests.h"
#include "rendezvous/layout.h"
#include "rendezvous/net/endpoint.h"

// The requests as etcd's JSON gateway takes them (/v3, etcd 3.4 and later): keys and values in
// base64, 64-bit numbers as texts, and zero and false values left out. Pure.

namespace ddprun::rendezvous::etcd {

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
