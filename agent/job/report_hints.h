// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job/job_spec.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// Advice about a failure whose cause ddprun knows from the worker's last words or its end: a
/// line; empty: nothing. Pure.
std::string report_hint(const rendezvous::Failure& failure);

/// The cause of a failure for want of a Python module: which Python lacks it, of a program that
/// ddprun runs by Python; empty: it is another failure. Pure.
std::string missing_module_text(const rendezvous::Failure& failure, const JobSpec& job);

}  // namespace ddprun::agent
