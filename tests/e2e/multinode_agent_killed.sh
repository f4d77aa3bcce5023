#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node's agent is killed with SIGKILL: its workers are gone, and the others go on at once, with
# the same ranks and without a restart.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2:3 --rdzv_endpoint "$here:29500" --last_call_timeout 600 --heartbeat_interval 60
     --lease 600 --max_restarts 3)

on a start "${job[@]}" sh -c 'exec sleep 600'
for node in b c; do
  on "$node" start "${job[@]}" --rdzv_conf is_host=false sh -c 'exec sleep 600'
done
for node in a b c; do on "$node" wait_for_event round_ready '"node_count":3,'; done

on b
lost_rank=$(sed -n 's/.*"round_ready".*"node_rank":\([0-9]*\),.*/\1/p' "$events" | tail -1)
worker=$(worker_of)
kill -KILL "$(agent_of)"
finish
expect_exit 137
[ ! -e "/proc/$worker" ] || fail "its worker is left"
for node in a c; do
  on "$node" wait_for_event round_ready '"restarts":0,"node_rank":'
  wait_for_event round_ready '"node_count":2,'
  expect_stderr "node $lost_rank \(.*\) is gone: its agent was killed by SIGKILL"
  expect_stderr 'round [0-9]+ with 2 of 2:3 nodes, 2 workers'
  kill -INT "$ddprun"
done
for node in a c; do on "$node" finish && expect_exit 130; done
expect_no_process_left
