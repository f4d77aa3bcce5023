// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/host.h"
#include "cli/line/raw_options.h"

namespace ddprun::cli {

// Rules that involve several options or the host. Each completes `raw.job`. Errors: usage, one line
// that names the flag, the value, and a right one.

/// The rendezvous, and this node's rank.
Result<> resolve_rendezvous(RawOptions& raw, Mode mode, const Host& host);

/// The job's key, from the secret of --secret_file, else of DDPRUN_SECRET. If there is neither, and
/// the job has several nodes of Slurm, from a new secret that munge seals, if there is munge.
/// Returns a note about munge's: "the job has a secret (munge)", or why there is none; else empty.
/// Call it after resolve_rendezvous. Errors also: system (OpenSSL lacks what it needs).
Result<std::string> resolve_secret(RawOptions& raw, const Host& host);

/// The secret of --secret_file, else of DDPRUN_SECRET; empty: there is neither. Overwrites
/// `host.secret`. Errors: usage.
Result<Secret> given_secret(const RawOptions& raw, const Host& host);

/// The number of workers, and the node's GPUs.
Result<> resolve_workers(RawOptions& raw, const Host& host);

/// Checks that the local ranks in flags about output exist. Call it after resolve_workers.
Result<> check_logs(const agent::JobSpec& job);

/// Checks that --pdb names an existing rank, and that there is a terminal. Call it after
/// resolve_workers.
Result<> check_debugged_rank(const agent::JobSpec& job, const Host& host);

/// The CPUs of each worker. Call it after resolve_workers. Errors also: system (hwloc fails).
Result<> resolve_bindings(RawOptions& raw, const Host& host);

/// The prefix of the workers' lines. Call it after resolve_workers.
Result<> resolve_prefix(RawOptions& raw, const Host& host);

/// Decides how the ranks of MPI find each other, and warns if they do not. Call it after
/// resolve_workers and resolve_program. Errors: usage.
Result<> resolve_mpi(RawOptions& raw, const Host& host);

/// Warns if a lone worker's arguments contain --nproc_per_node or --nnodes, or if the arguments of
/// a program of MPI contain the colon by which mpirun separates programs. Call it after the same.
void warn_of_misplaced_flags(RawOptions& raw);

/// The program to execute, which may be python. Errors also: not_found, not_executable.
Result<> resolve_program(RawOptions& raw, std::vector<std::string> command, const Host& host);

}  // namespace ddprun::cli
