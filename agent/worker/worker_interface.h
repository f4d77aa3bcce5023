// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <boost/asio/ip/address.hpp>

#include "agent/job/job_spec.h"

namespace ddprun::agent {

/// The network interface by which workers of several nodes reach each other: JobSpec::interface,
/// which becomes their GLOO_SOCKET_IFNAME. In a job of one node it stays empty.

/// Notes the interface of `job.local_addr`, or else the interface towards `other`, the address of
/// another node. Ignores a loopback address.
void note_interface(JobSpec& job, const boost::asio::ip::address& other);

/// If no interface is noted yet, calls note_interface() with `agents`, the IP addresses of other
/// agents, until one is. The master's node needs this: it connects to itself, and there its host's
/// name may mean a loopback address.
void find_interface(JobSpec& job, const std::vector<std::string>& agents);

}  // namespace ddprun::agent
