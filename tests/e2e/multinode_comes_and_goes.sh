#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node that is lost again and again costs restarts from the second time on, and ends the job when none is
# left: the others do not regroup without end.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
at=(--rdzv_endpoint "$here:29500" "${quick[@]}" --nnodes 2 --max_restarts 1)

start_node() {
  on "$1" start "${at[@]}" --node_rank "$2" sh -c 'exec sleep 600'
}
lose_b() {
  on b
  kill -KILL "$(agent_of)"
  finish
}

on serve start serve "${at[@]}"
wait_for_event serving
start_node a 0
start_node b 1
on a wait_for_event round_ready '"round":0,"restarts":0,'
lose_b
start_node b 1
on a wait_for_event round_ready '"round":1,"restarts":0,'
lose_b
start_node b 1
on a wait_for_event round_ready '"round":2,"restarts":1,'
lose_b
for node in a serve; do
  on "$node" finish
  expect_exit 137
done
same_report a serve
expect_stderr 'rank 1 failed first: lost with its node \(host .*, round 2\): node 1 \(.*\) was lost for the 3rd time'
expect_stderr 'no restart left \(1 of 1 used\)'
expect_no_process_left
