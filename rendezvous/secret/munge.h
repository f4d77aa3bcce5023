// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

// munge, by which Slurm's hosts identify each other's users. A credential is text that munged, the
// daemon of a host, makes of some bytes. A munged with the same key opens it, only for processes of
// the same user, and says who made it. libmunge.so.2 is not linked but loaded: most hosts have
// none.
//
// munge_seal and munge_open ask munged and wait for its answer: seconds if it hangs. For any
// thread.

namespace ddprun::rendezvous {

/// The bytes to seal: a tag, the job's id, and `secret`. Other credentials of the same user, such
/// as Slurm's or another job's, carry no secret of this job.
Secret sealed_bytes(const Secret& secret, const std::string& run_id);

/// The secret in sealed bytes. Errors: usage (they are not exactly the sealed_bytes of 256 bits for
/// this job).
Result<Secret> secret_in(std::string_view sealed_bytes, const std::string& run_id);

/// Seals `secret`, 256 bits of the job `run_id`, as a credential that this user's processes can
/// open, here and on hosts with the same key of munge. Opens it once, to prove that munge works
/// here. Errors: unreachable (there is no munge here, or it does not answer), usage (it does not
/// open what it sealed).
Result<std::string> munge_seal(const Secret& secret, const std::string& run_id);

/// Opens a secret of the job `run_id` that a process of this user has sealed. Its age does not
/// matter, nor how often it was opened: no other user can open it, and its bytes never change.
/// Errors: unreachable (munge does not answer), usage (the credential is another user's, or for
/// one, or made with another key of munge, or has no secret of this job).
Result<Secret> munge_open(const std::string& credential, const std::string& run_id);

}  // namespace ddprun::rendezvous
