#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that fails because another one did, before its node was asked to stop, is reported as one that failed, too.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2 --rdzv_endpoint "$here:29500" --heartbeat_interval 60 --lease 600)
program='
  until [ -e "$0/fail.$RANK" ]; do sleep 0.01; done
  exit "$((RANK + 5))"'

on a start "${job[@]}" sh -c "$program" "$work"
on b start "${job[@]}" --rdzv_conf is_host=false sh -c "$program" "$work"
wait_for_event worker_started
on a wait_for_event worker_started
on b
agent=$(agent_of) worker=$(worker_of)
kill -STOP "$agent"  # it does not notice the failure
: >"$work/fail.0"
on a wait_for_event round_stopping
: >"$work/fail.1"
is_dead() { grep -q '^State:.*Z' "/proc/$worker/status"; }
wait_until is_dead
kill -CONT "$agent"
for node in a b; do
  on "$node" finish
  expect_exit 5
done
same_report a b
expect_stderr 'rank 0 failed first: exit 5'
expect_stderr '^ +rank 1 failed too \(exit 6\)$'
expect_no_process_left
