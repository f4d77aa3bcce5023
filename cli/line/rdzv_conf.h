// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/job/job_spec.h"
#include "base/error.h"
#include "rendezvous/etcd/tls.h"

namespace ddprun::cli {

/// How --rdzv_conf wants etcd to be reached.
struct EtcdConf {
  bool https = false;
  rendezvous::etcd::TlsFiles files;

  bool is_given() const {
    return https || !files.authority.empty() || !files.certificate.empty() || !files.key.empty();
  }
};

/// Sets `job` and `etcd` from the value of torchrun's --rdzv_conf, "key=value,key=value". Keys for
/// things that ddprun does not have are accepted without effect, unknown ones with a warning in
/// `job`, unless they are close to a known one. Quotes around the whole are left out.
///
/// Errors: usage, worded to follow the flag's name: "has no key 'x'; did you mean y?".
Result<> set_rdzv_conf(std::string_view text, agent::JobSpec& job, EtcdConf& etcd);

/// The pair of set_rdzv_conf for these: "more_ports=1:2".
std::string more_ports_text(const std::vector<std::uint16_t>& ports);

/// Whether its keys about etcd can be followed. Errors: usage, with the flag's name.
Result<> check_etcd_conf(const EtcdConf& etcd, bool by_etcd);

}  // namespace ddprun::cli
