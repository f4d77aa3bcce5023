#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 2:3 nodes: a new node is admitted, one above the maximum waits as a spare and replaces a lost node at
# once, and below the minimum the job waits for a replacement. No restart is counted.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2:3 --rdzv_endpoint "$here:29500" "${quick[@]}" --last_call_timeout 1s)
start_node() {
  on "$1" start "${job[@]}" "${@:2}" sh -c 'exec sleep 600'
}
kill_agent() {
  on "$1"
  kill -KILL "$(agent_of)"
  finish
}
expect_ranks_of() {  # the workers that started last on NAME
  on "$1" wait_for_event worker_started "\"round\":$2,\"rank\":$3,"
}

start_node a
start_node b --rdzv_conf is_host=false
on a wait_for_event round_ready '"round":0,"restarts":0,"node_rank":0,"node_count":2,'
expect_ranks_of b 0 1
start_node c --rdzv_conf is_host=false
expect_ranks_of a 1 0
expect_ranks_of b 1 1
expect_ranks_of c 1 2
on a expect_stderr "^ddprun: \[$(hostname)\] $(hostname) joined$"

start_node spare --rdzv_conf is_host=false
wait_for_stderr 'waiting .* for a place: all 2:3 nodes of this job are running'
kill_agent b
expect_ranks_of a 2 0
expect_ranks_of spare 2 1  # the rank that was lost
expect_ranks_of c 2 2

kill_agent c
kill_agent spare
on a wait_for_stderr 'waiting .* for 1 of 2 nodes: have node 0'
start_node late --rdzv_conf is_host=false
on late wait_for_event round_ready '"node_rank":1,"node_count":2,'
for node in a late; do
  on "$node" expect_no_stderr 'restart [0-9]'
  kill -INT "$ddprun"
done
for node in a late; do on "$node" finish && expect_exit 130; done
expect_no_process_left
