#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# While nodes are missing each node names them; at the join timeout all end with 124 and the same
# message.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 3 --rdzv_endpoint "$here:29500" --join_timeout 10s "${quick[@]}")

on a start "${job[@]}" --node_rank 0 sh -c 'echo started'
on b start "${job[@]}" --node_rank 2 --nproc_per_node 2 sh -c 'echo started'
for node in a b; do
  on "$node" finish
  expect_exit 124
  expect_stderr "waiting [0-9.]+ s for 1 of 3 nodes: have node 0 \($(hostname), 1 worker\), node 2 \($(hostname), 2 workers\); missing node_rank 1.* \(other hosts do not reach this one as $here\)$"
  expect_stderr "timed out after [0-9.]+ s \\(--join_timeout\\) waiting for 1 of 3 nodes: .* \\(other hosts do not reach this one as $here\\)$"
  expect_no_stdout started
  sed -n 's/.*\(timed out after .*\)/\1/p' "$err" >"$work/$node"
done
[ -s "$work/a" ] || fail "no sentence about giving up"
cmp "$work/a" "$work/b" || fail "not the same sentence"
expect_no_process_left

run "${job[@]}" --rdzv_conf is_host=false --join_timeout 1s sh -c 'echo started'
expect_exit 124
expect_stderr "timed out after .* \(--join_timeout\) waiting for the master at $here:29500: Connection refused \\(is it started\\? is the port open in the firewall\\?\\)$"
expect_no_process_left

# Each host takes this address for its own.
run --nnodes 2 --rdzv_endpoint "0.0.0.0:$((10000 + $$ % 10000))" --join_timeout 1s true
expect_exit 124
expect_stderr 'waiting for 1 of 2 nodes: .* \(other hosts do not reach this one as 0\.0\.0\.0\)$'
expect_no_process_left
