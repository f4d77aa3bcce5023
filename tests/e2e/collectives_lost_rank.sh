#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Workers that handle SIGTERM, and wait in a collective that does not notice a killed worker, are
# notified by ddprun, on every node: each names the lost rank, and writes its trace.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
export DDP_TRACE_DIR=$work/traces
mkdir "$DDP_TRACE_DIR"

expect_told() {  # expect_reported REGEX NAME: what ranks 0 and 1 report; NAME is the node of rank 1
  expect_stdout "ddp: rank 0 failed in #1 all_reduce sum float32\[1000\]: $1\$"
  on "$2" expect_stdout "ddp: rank 1 failed.*: $1\$"
  for rank in 0 1; do
    grep -q "\"reason\": *\"ddp: rank $rank failed.*: $1\"" "$DDP_TRACE_DIR/rank_$rank.json" ||
      fail "the trace of rank $rank has not the reason: $(head -c 300 "$DDP_TRACE_DIR/rank_$rank.json")"
  done
  rm "$DDP_TRACE_DIR"/*
}

host=$(uname -n)
start --nproc_per_node 3 "$DDPRUN_BIN/waiting_ranks"
for rank in 0 1 2; do wait_for_stdout "rank $rank waits"; done
kill -KILL "$(worker_of 2)"
finish
expect_exit 137
expect_told "rank 2 on host $host was killed by SIGKILL" only
expect_no_process_left

job=(--nnodes 3 --rdzv_endpoint "$here:29500" "${quick[@]}" "$DDPRUN_BIN/waiting_ranks")
for node in 0 1 2; do
  on "$node" start --node_rank "$node" "${job[@]}"
  [ "$node" != 0 ] || wait_for_event job_started
done
for node in 0 1 2; do on "$node" wait_for_stdout "rank $node waits"; done
kill -KILL "$(worker_of)"
for node in 2 1 0; do on "$node" finish && expect_exit 137; done
expect_told "rank 2 on host $host was killed by SIGKILL" 1
on 0 same_report 0 1 2
expect_no_process_left
