#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks of each host share memory, in a group of all hosts, too, and ProcessGroup::split_by_node makes a group of them.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 2
job=(--nnodes 2 --nproc_per_node 2 --rdzv_endpoint node1 "${quick[@]}")

for host in 1 2; do on "$host" start "${job[@]}" "$DDPRUN_BIN/ranks_by_node"; done
for host in 1 2; do
  on "$host" finish && expect_exit 0
  expect_stdout "rank ([0-3]) is on a node with \\1 [0-3]\$"
  expect_stdout "rank ([0-3]) is on a node with [0-3] \\1\$"
  [ "$(grep -c 'is on a node with' "$out")" = 2 ] || fail 'not two ranks here'
done
expect_no_process_left
