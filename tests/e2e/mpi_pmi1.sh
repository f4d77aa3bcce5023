#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that speak PMI-1, as those of MPICH and Intel MPI do, find each other on one node and on two.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
command -v python3 >/dev/null || skip "there is no python3"
client=(python3 "$(dirname "${BASH_SOURCE[0]}")/pmi1_client.py")

run --mpi pmi1 --nproc_per_node 3 "${client[@]}" meet
expect_exit 0
for rank in 0 1 2; do expect_stdout "rank $rank of 3, \(vector,\(0,1,3\)\), ddprun_[0-9a-f]*_0: got 0 1 4$"; done

# Nodes of one job may have different numbers of workers.
for node in 0 1; do
  on "$node" start --mpi pmi1 --nnodes 2 --node_rank "$node" --rdzv_endpoint "$here:29500" \
    --nproc_per_node $((node + 1)) "${client[@]}" meet
done
for node in 0 1; do
  on "$node" finish
  expect_exit 0
  expect_stdout "rank $node of 3, \(vector,\(0,1,1\),\(1,1,2\)\), .*: got 0 1 4$"
done

# Each round has a name of its own, or what an earlier one has left would be taken for its own.
run --mpi pmi1 --nproc_per_node 2 --max_restarts 1 "${client[@]}" fail
expect_exit 0
expect_stderr 'rank [01] failed first: exit 7 .*round 0'
expect_stdout 'rank [01] is in ddprun_[0-9a-f]*_0$'
expect_stdout 'rank 1 of 2, .*, ddprun_[0-9a-f]*_1: got 0 1$'

# These ranks do not see the variables of another launcher's job.
export PMI_RANK=7 PMI_FD=99 PMIX_RANK=7 PMIX_NAMESPACE=other OMPI_COMM_WORLD_RANK=7 PMIX_MCA_gds=hash
# shellcheck disable=SC2016
run --mpi pmi1 --nproc_per_node 2 sh -c 'echo "$RANK $PMI_RANK $MPI_LOCALRANKID $PMI_SPAWNED$PMIX_RANK$OMPI_COMM_WORLD_RANK $PMIX_MCA_gds"; [ $PMI_FD != 99 ]'
expect_exit 0
expect_stdout '\[1\] 1 1 1 0 hash$'
# shellcheck disable=SC2016
run sh -c 'echo "$PMI_RANK $PMI_FD"'
expect_stdout '^7 99$'
expect_no_process_left
