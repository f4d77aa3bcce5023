#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A node that has finished waits for the others; if one of them fails, it takes part in the next round.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" --max_restarts 1)
program='
  echo "try $TORCHELASTIC_RESTART_COUNT"
  [ "$RANK" = 0 ] && exit 0
  until [ -e "$0/go.$TORCHELASTIC_RESTART_COUNT" ]; do sleep 0.01; done
  exit "$((1 - TORCHELASTIC_RESTART_COUNT))"'

on a start "${job[@]}" sh -c "$program" "$work"
on b start "${job[@]}" --rdzv_conf is_host=false sh -c "$program" "$work"
on a wait_for_event worker_ended '"code":0,'
wait_for_stderr 'waiting [0-9.]+ s for all nodes to finish'
: >"$work/go.0"
wait_for_stdout '^\[0\] try 1$'
: >"$work/go.1"
for node in a b; do
  on "$node" finish
  expect_exit 0
  expect_stderr 'rank 1 failed first: exit 1'
done
expect_no_process_left
