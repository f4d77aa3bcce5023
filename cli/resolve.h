// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/host.h"
#include "cli/line/raw_options.h"

namespace ddprun::cli {

// Rules that involve several options or the host. Each completes `raw.job`. Errors: usage, one line
// that names the flag, the value, and what would be right.

/// The rendezvous, and this node's rank.
Result<> resolve_rendezvous(RawOptions& raw, Mode mode, const Host& host);

/// The job's key, from the secret of --secret_file, else of DDPRUN_SECRET, else, for several nodes
/// in a job of Slurm, from a new one that munge seals, if there is munge. After resolve_rendezvous.
/// Returns what is to be noted of the last: "the job has a secret (munge)", or why there is none;
/// empty: nothing. Errors also: system (OpenSSL cannot do what is needed).
Result<std::string> resolve_secret(RawOptions& raw, const Host& host);

/// The secret of --secret_file, else of DDPRUN_SECRET, which is overwritten; empty: there is
/// neither. Errors: usage.
Result<Secret> given_secret(const RawOptions& raw, const Host& host);

/// The number of workers, and the node's GPUs.
Result<> resolve_workers(RawOptions& raw, const Host& host);

/// That the local ranks named by flags about output exist. After resolve_workers.
Result<> check_logs(const agent::JobSpec& job);

/// That --pdb names a rank that may have the terminal, and that there is one. After
/// resolve_workers.
Result<> check_debugged_rank(const agent::JobSpec& job, const Host& host);

/// The CPUs of each worker. After resolve_workers. Errors also: system (hwloc fails).
Result<> resolve_bindings(RawOptions& raw, const Host& host);

/// The prefix of the workers' lines. After resolve_workers.
Result<> resolve_prefix(RawOptions& raw, const Host& host);

/// A warning where the workers would be MPI programs that do not know of each other. After
/// resolve_workers and resolve_program.
void warn_of_mpi(RawOptions& raw, const Host& host);

/// A warning where a lone worker's arguments have ddprun's number of workers or nodes. After the
/// same.
void warn_of_misplaced_flags(RawOptions& raw);

/// The program to execute, which may be python. Errors also: not_found, not_executable.
Result<> resolve_program(RawOptions& raw, std::vector<std::string> command, const Host& host);

}  // namespace ddprun::cli
