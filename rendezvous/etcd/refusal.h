// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace ddprun::rendezvous::etcd {

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

/// Judges such an answer. `user`: the name that ddprun gave; empty: none. Pure.
Refusal judge_refusal(unsigned status, std::string_view body, const std::string& user);

}  // namespace ddprun::rendezvous::etcd
