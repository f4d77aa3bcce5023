// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::rendezvous {

/// 128 random bits in hexadecimal: unique, and impossible to guess.
std::string random_name();

}  // namespace ddprun::rendezvous
