#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The master never comes back: the others kill their workers when the lease is over, wait for it,
# and end with 124 at the join timeout.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 3 --rdzv_endpoint "$here:29500" "${quick[@]}" --join_timeout 9s)
program='trap "" TERM; echo up; exec sleep 600'

on master start "${job[@]}" sh -c "$program"
for node in a b; do
  on "$node" start "${job[@]}" --rdzv_conf is_host=false sh -c "$program"
done
for node in a b; do on "$node" wait_for_stdout up; done
on master
kill -KILL "$(agent_of)"
finish
for node in a b; do
  on "$node" wait_for_event worker_ended '"signal":"SIGKILL"'
  expect_stderr 'for 4 s \(--lease\): killing this node.s workers'
  finish
  expect_exit 124
  expect_stderr "timed out after [0-9.]+ s \(--join_timeout\) waiting for the master at $here:29500: Connection refused"
done
expect_no_process_left
