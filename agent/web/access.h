// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "agent/ask/routes.h"

namespace ddprun::agent::web {

/// Decides whether a request may see the page of a job. It needs the token, and this host's name:
/// if another site makes its name lead to this address (DNS rebinding), the request's Host or
/// Origin has that site's name. Pure.
class Access {
 public:
  /// `host_name` is this host's.
  Access(std::string token, std::string host_name)
      : token_(std::move(token)), host_name_(std::move(host_name)) {}

  /// Whether the question has the token, as "token=" in its query or as a bearer's authorization,
  /// and is meant for this host: by an IP address, as localhost, or by its name.
  bool admits(const ask::Question& question) const;

 private:
  bool is_own_name(std::string_view authority) const;

  std::string token_;
  std::string host_name_;
};

/// Whether two texts are the same. The time that it takes reveals only their lengths.
bool is_same_secret(std::string_view one, std::string_view other);

}  // namespace ddprun::agent::web
