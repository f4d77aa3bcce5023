// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "agent/job/job_spec.h"
#include "rendezvous/node.h"

namespace ddprun::agent {

/// A line of advice, if the worker's last words or its end show the cause of the failure; else
/// empty. Pure.
std::string report_hint(const rendezvous::Failure& failure);

/// If ddprun ran the program by Python, and it failed because that Python lacks a module: the
/// cause, with the Python's path. Else empty. Pure.
std::string missing_module_text(const rendezvous::Failure& failure, const JobSpec& job);

}  // namespace ddprun::agent
