// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/error.h"
#include "base/secret.h"

// munge, by which Slurm's hosts know each other's users. A credential is text that munged, the
// daemon of a host, makes of some bytes: another one with the same key opens it for the processes
// of the same user alone, and says who made it. libmunge.so.2 is not linked but loaded: most hosts
// have none.
//
// Both functions ask munged and wait for its answer: seconds where it hangs. For any thread.

namespace ddprun::rendezvous {

/// `secret` as a credential that this user's processes can open, here and on hosts with the same
/// key of munge. It has been opened once, so munge works here. Errors: unreachable (there is no
/// munge here, or it does not answer), usage (it does not open what it sealed).
Result<std::string> munge_seal(const Secret& secret);

/// A secret that a process of this user has sealed. How old it is does not matter, nor how often it
/// was opened: nobody else could open it, and its bytes are the same as before. Errors: unreachable
/// (munge does not answer), usage (it is of another user, or for one, or made with another key of
/// munge).
Result<Secret> munge_open(const std::string& credential);

}  // namespace ddprun::rendezvous
