// SPDX-License-Identifier: Apache-2.0
// Messages of the control protocol with something in every field.
#pragma once

#include <string>

#include "rendezvous/wire/protocol.h"

namespace ddprun::rendezvous {

Failure sample_failure();
JoinRequest sample_request();
message::Hello sample_hello();
reply::Welcome sample_welcome();
Layout sample_layout();

/// The body of the only frame in `bytes`, fed one byte at a time.
std::string body_of(const std::string& bytes);

}  // namespace ddprun::rendezvous
