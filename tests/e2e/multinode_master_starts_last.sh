#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The master starts last: earlier nodes wait, print for which nodes, and get the ranks they asked for.
# The number of workers differs between nodes.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 3 --master_addr "$here" --master_port 29500 "${quick[@]}")
show='echo "rank $RANK of $WORLD_SIZE, node $GROUP_RANK, local $LOCAL_RANK of $LOCAL_WORLD_SIZE"'

on early start "${job[@]}" --rdzv_conf is_host=false --node_rank 2 --nproc_per_node 3 sh -c "$show"
wait_for_stderr "waiting [0-9.]+ s for the master at $here:29500: Connection refused .*; giving up after .* \(--join_timeout\)"
on next start "${job[@]}" --rdzv_conf is_host=false --node_rank 1 sh -c "$show"
on master start "${job[@]}" --node_rank 0 --nproc_per_node 2 sh -c "$show"

on master finish
expect_exit 0
expect_stdout '^\[1\] rank 1 of 6, node 0, local 1 of 2$'
on next finish
expect_exit 0
expect_stdout '^\[2\] rank 2 of 6, node 1, local 0 of 1$'
on early finish
expect_exit 0
expect_stdout '^\[5\] rank 5 of 6, node 2, local 2 of 3$'
expect_stderr 'all 3 nodes joined after'
expect_no_process_left
