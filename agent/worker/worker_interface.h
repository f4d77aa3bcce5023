// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <boost/asio/ip/address.hpp>

#include "agent/job/job_spec.h"

namespace ddprun::agent {

/// The network interface by which workers of several nodes reach each other: JobSpec::interface,
/// which becomes their GLOO_SOCKET_IFNAME. In a job of one node it stays empty.

/// Notes the interface of `job.local_addr`, or else that towards `other`, the address of another
/// node. A loopback address says nothing.
void note_interface(JobSpec& job, const boost::asio::ip::address& other);

/// If nothing is noted yet, as note_interface() with the first of `agents` that says something;
/// they are the IP addresses of other agents. For the master's node: it connects to itself, and its
/// host's own name may stand for a loopback address there.
void find_interface(JobSpec& job, const std::vector<std::string>& agents);

}  // namespace ddprun::agent
