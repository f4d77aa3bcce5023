#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node is cut off: when it is lost, workers of the others that handle SIGTERM, and wait in a
# collective, are notified of its loss, although none of their connections ends.
. "$(dirname "${BASH_SOURCE[0]}")/netns.sh"
hosts 3
export DDP_TRACE_DIR=$work/traces
mkdir "$DDP_TRACE_DIR"

for host in 1 2 3; do
  on "$host" start --nnodes 3 --node_rank $((host - 1)) --rdzv_endpoint node1:29500 \
    "${quick[@]}" "$DDPRUN_BIN/waiting_ranks"
done
for host in 1 2 3; do on "$host" wait_for_stdout "rank $((host - 1)) waits"; done
unplug 3
gone='node 2 \(node3\) is gone: silent for .* \(--lease 4 s\)'
on 1 wait_for_stdout "ddp: rank 0 failed in #1 all_reduce sum float32\[1000\]: $gone\$"
on 2 wait_for_stdout "ddp: rank 1 failed.*: $gone\$"
for rank in 0 1; do
  grep -qE "\"reason\": *\"ddp: rank $rank failed.*: $gone\"" "$DDP_TRACE_DIR/rank_$rank.json" ||
    fail "the trace of rank $rank has not the reason"
done
for host in 3 2 1; do
  on "$host"
  kill -TERM "$ddprun"
  finish
  expect_exit 143
done
expect_no_process_left
