// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/secret.h"

// munge, by which Slurm's hosts know each other's users. A credential is text that munged, the
// daemon of a host, makes of some bytes: another one with the same key opens it for the processes
// of the same user alone, and says who made it. libmunge.so.2 is not linked but loaded: most hosts
// have none.
//
// munge_seal and munge_open ask munged and wait for its answer: seconds where it hangs. For any
// thread.

namespace ddprun::rendezvous {

/// What is sealed: a tag, the job's id, and `secret`. Other credentials of the same user, such as
/// those of Slurm, or of another job, carry no secret of this job.
Secret sealed_bytes(const Secret& secret, const std::string& run_id);

/// The secret in it. Errors: usage (it is not exactly what sealed_bytes makes of 256 bits for this
/// job).
Result<Secret> secret_in(std::string_view sealed_bytes, const std::string& run_id);

/// `secret`, of 256 bits, of the job `run_id` as a credential that this user's processes can open,
/// here and on hosts with the same key of munge. It has been opened once, so munge works here.
/// Errors: unreachable (there is no munge here, or it does not answer), usage (it does not open
/// what it sealed).
Result<std::string> munge_seal(const Secret& secret, const std::string& run_id);

/// A secret of the job `run_id` that a process of this user has sealed. How old it is does not
/// matter, nor how often it was opened: nobody else could open it, and its bytes are the same as
/// before. Errors: unreachable (munge does not answer), usage (it is of another user, or for one,
/// or made with another key of munge, or no secret of this job).
Result<Secret> munge_open(const std::string& credential, const std::string& run_id);

}  // namespace ddprun::rendezvous
