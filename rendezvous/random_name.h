// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ddprun::rendezvous {

/// 128 random bits in hexadecimal: nobody else has this name, and nobody guesses it.
std::string random_name();

}  // namespace ddprun::rendezvous
