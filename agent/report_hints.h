// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "rendezvous/node.h"

namespace ddprun::agent {

/// Advice about a failure whose cause ddprun knows from the worker's last words or its end: a
/// line; empty: nothing. Pure.
std::string report_hint(const rendezvous::Failure& failure);

}  // namespace ddprun::agent
