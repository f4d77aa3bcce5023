#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A program of MPI on two hosts is one job, and what happens on one host reaches the other.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
command -v mpicc >/dev/null || skip "there is no mpicc"
mpicc -o "$work/world" "$(dirname "${BASH_SOURCE[0]}")/mpi_world.c"
hosts 2

job() {  # job CODE ARGUMENTS...
  local host
  for host in 1 2; do
    on "$host" start --nnodes 2 --node_rank $((host - 1)) --rdzv_endpoint node1:29500 "${quick[@]}" --max_restarts 1 \
      --nproc_per_node 2 "$work/world" "${@:2}"
  done
  for host in 1 2; do on "$host" finish && expect_exit "$1"; done
}

job 0
for rank in 0 1; do on 1 expect_stdout "rank $rank of 4, 2 on its node, sum 6, RANK $rank, restart 0$"; done
for rank in 2 3; do on 2 expect_stdout "rank $rank of 4, 2 on its node, sum 6, RANK $rank, restart 0$"; done

job 0 kill 3
on 1 expect_stdout 'rank 0 of 4, 2 on its node, sum 6, RANK 0, restart 1$'

job 3 abort 2
on 1 expect_stderr 'rank 2 failed first: exit 3 .*node2.*: called MPI_Abort\(3\)$'
expect_no_process_left
