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

/// How to reach etcd, from --rdzv_conf.
struct EtcdConf {
  bool https = false;
  rendezvous::etcd::TlsFiles files;

  bool is_given() const {
    return https || !files.authority.empty() || !files.certificate.empty() || !files.key.empty();
  }
};

/// Sets `job` and `etcd` from the value of torchrun's --rdzv_conf, "key=value,key=value". Keys of
/// torchrun that mean nothing here have no effect. Unknown keys get a warning in `job`, or are an
/// error if they are close to a known one. Drops quotes around the whole.
///
/// Errors: usage; the sentence follows the flag's name: "has no key 'x'; did you mean y?".
Result<> set_rdzv_conf(std::string_view text, agent::JobSpec& job, EtcdConf& etcd);

/// The pair of --rdzv_conf for these ports: "more_ports=1:2".
std::string more_ports_text(const std::vector<std::uint16_t>& ports);

/// Checks the keys about etcd. Errors: usage, with the flag's name.
Result<> check_etcd_conf(const EtcdConf& etcd, bool by_etcd);

}  // namespace ddprun::cli
