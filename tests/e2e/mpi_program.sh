#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program of MPI, here of Open MPI, is one job: MPI_COMM_WORLD has all workers, also after a restart. Its failures
# are named as MPI means them, and ranks that were killed leave nothing in /dev/shm.
if [ -z "${MPI_OWN_MEMORY:-}" ] && unshare --mount true 2>/dev/null; then
  MPI_OWN_MEMORY=1 exec unshare --mount bash "$0" "$@"
fi
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v mpicc >/dev/null || skip "there is no mpicc"
[ -z "${MPI_OWN_MEMORY:-}" ] || mount -t tmpfs none /dev/shm
export TMPDIR=$work/tmp
mkdir "$TMPDIR"
mpicc -o "$work/world" "$(dirname "${BASH_SOURCE[0]}")/mpi_world.c"
expect_nothing_left() {
  [ -z "${MPI_OWN_MEMORY:-}" ] || [ -z "$(ls -A /dev/shm)" ] || fail "left in /dev/shm: $(ls -A /dev/shm)"
  [ -z "$(ls -A "$TMPDIR")" ] || fail "left in \$TMPDIR: $(ls -A "$TMPDIR")"
}

run --nproc_per_node 3 "$work/world"
expect_exit 0
for rank in 0 1 2; do expect_stdout "^\\[$rank\\] rank $rank of 3, 3 on its node, sum 3, RANK $rank, restart 0$"; done
expect_nothing_left

run --nproc_per_node 3 --max_restarts 1 "$work/world" kill 2
expect_exit 0
expect_stderr 'rank 2 failed first: killed by SIGKILL'
expect_stdout 'rank 0 of 3, 3 on its node, sum 3, RANK 0, restart 1$'
expect_nothing_left

run --nproc_per_node 3 "$work/world" abort 1
expect_exit 3
expect_stderr 'rank 1 failed first: exit 3 .*: called MPI_Abort\(3\)$'
expect_nothing_left

run --nproc_per_node 3 "$work/world" exit 1
expect_exit 1
expect_stderr 'rank 1 failed first: exit 1 .*: ended without MPI_Finalize, with exit code 0$'
expect_nothing_left

# A job within a job, of which it knows nothing.
run --nproc_per_node 2 --mpi both "$DDPRUN" --quiet --nproc_per_node 2 "$work/world"
expect_exit 0
for rank in 0 1; do expect_stdout "^\\[1\\] \\[$rank\\] rank $rank of 2, 2 on its node"; done
expect_nothing_left

# The next ddprun removes the files of a killed one.
if [ -n "${MPI_OWN_MEMORY:-}" ]; then
  on killed start --nproc_per_node 2 "$work/world" skip 1
  wait_until worker_of 1 >/dev/null
  agent=$(agent_of)
  [ -n "$(ls -d /dev/shm/ddprun_mpi-*)" ] || fail "no folder for MPI in /dev/shm"
  kill -KILL "$agent"
  finish
  on next start sleep 600
  wait_until sh -c '[ -z "$(ls -A /dev/shm | grep ddprun_mpi)" ]'
  kill -TERM "$ddprun"
  finish
  on only true
fi

# Each is a job of its own if the user says so, or if it is alone. Open MPI's jobs of one rank disturb each other when
# they begin at once.
run --nproc_per_node 2 --mpi none flock "$work/lock" "$work/world"
expect_exit 0
expect_stdout '^\[1\] rank 0 of 1, 1 on its node, sum 0, RANK 1'
run "$work/world"
expect_exit 0
expect_stdout '^rank 0 of 1, '

# The library connects its ranks itself.
run --nproc_per_node 2 "$DDPRUN_BIN/allreduce_hello"
expect_exit 0
expect_no_stderr MPI

# Nothing is known of what a script will load.
if command -v python3 >/dev/null; then
  cat >"$work/loads.py" <<'END'
import ctypes, signal
ctypes.CDLL("libmpi.so.40")
signal.pause()
END
  start --nproc_per_node 2 "$work/loads.py"
  wait_for_stderr 'rank 0 has loaded .*/libmpi.*, and the ranks of MPI are not connected: .*; add --mpi both'
  kill -TERM "$ddprun"
  finish
fi

# Without libpmix.
mkdir "$work/lib"
echo 'no library' >"$work/lib/libpmix.so.2"
LD_LIBRARY_PATH=$work/lib run --nproc_per_node 2 --mpi pmix true
expect_exit 125
expect_stderr "could not be started.*Open MPI's ranks need libpmix 4.2 or later on this host"
LD_LIBRARY_PATH=$work/lib run --nproc_per_node 2 --mpi both true
expect_exit 0
expect_stderr "Open MPI's ranks need libpmix .*; the others are served"

start --nproc_per_node 2 "$work/world" skip 1
wait_for_stderr 'rank 0 waits in MPI_Init: rank 1 has not called it$'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_nothing_left
expect_no_process_left
