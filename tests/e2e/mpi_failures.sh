#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Failures of ranks of MPI are named as MPI means them: MPI_Abort and its code, an end without MPI_Finalize, ranks that
# others wait for in MPI_Init, and what ddprun does not serve.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"
mpi=(--mpi pmi1 --nproc_per_node 3 python3 "$(dirname "${BASH_SOURCE[0]}")/pmi1_client.py")

run "${mpi[@]}" abort 2
expect_exit 3
expect_stderr 'rank 2 failed first: exit 3 .*: called MPI_Abort\(3\)$'
expect_stderr 'ranks 0, 1 were stopped by ddprun'

run "${mpi[@]}" deaf 2
expect_exit 3
expect_stderr 'rank 2 failed first: exit 3 .*: called MPI_Abort\(3\)$'

run "${mpi[@]}" lost 1
expect_exit 1
expect_stderr 'rank 1 failed first: exit 1 .*: ended without MPI_Finalize, with exit code 0$'

run "${mpi[@]}" talk 1
expect_exit 125
expect_stderr "rank 0 failed first: exit 125 .*: rank 1 sent a request of PMI-1 that ddprun does not know: 'cmd=dance'\$"

run "${mpi[@]}" spawn
expect_exit 0
expect_stdout 'rank 1 is answered -1'
expect_stderr 'rank 1 called MPI_Comm_spawn, which ddprun does not serve'

run --hang_timeout 3s "${mpi[@]}" late 2
expect_exit 124
expect_stderr 'rank 2 \(.*\) is the likely cause: has not called MPI_Init: .*, while ranks 0, 1 waited in MPI_Init'

start "${mpi[@]}" uncalled 1
wait_for_stderr 'rank 1 waits in MPI_Init: ranks 0, 2 have not called it$'
kill -TERM "$ddprun"
finish
expect_exit 143

for node in 0 1; do
  on "$node" start --nnodes 2 --node_rank "$node" --rdzv_endpoint "$here:29500" "${quick[@]}" \
    "${mpi[@]}" "$([ "$node" = 0 ] && echo lost || echo uncalled)" 5
done
on 0 wait_for_stderr 'ranks 0-2 wait in MPI_Init: ranks 3, 4 have not called it$'
kill -TERM "${pids[0]}" "${pids[1]}"
for node in 0 1; do on "$node" finish; done
expect_no_process_left

# Its process for MPI is no worker, and the round does not go on without it.
mpi_server() { grep -lsx ddp-mpi $(survivors | sed 's|.*|/proc/&/comm|') | cut -d/ -f3 | grep .; }
on killed start "${mpi[@]}" uncalled 1
wait_until mpi_server >/dev/null
wait_until worker_of 2 >/dev/null
kill -KILL "$(mpi_server)"
finish
expect_exit 125
expect_stderr "rank 0 failed first: exit 125 .*: ddprun's process for MPI on this node ended or was killed$"
expect_no_process_left
