#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A worker fails: all nodes stop and join again while restarts are left; then all end with its exit
# code and the same report.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" --nproc_per_node 2 --max_restarts 1)
program='
  try=$TORCHELASTIC_RESTART_COUNT
  : >"$0/$try.$RANK"
  [ "$RANK" = 2 ] || exec sleep 600
  until [ -e "$0/$try.0" ] && [ -e "$0/$try.1" ] && [ -e "$0/$try.3" ]; do sleep 0.01; done
  echo "loss is nan" >&2
  exit 7'

on a start "${job[@]}" sh -c "$program" "$work"
on b start "${job[@]}" sh -c "$program" "$work"
for node in a b; do
  on "$node" finish
  expect_exit 7
  expect_stderr 'rank 2 failed first: exit 7 .*round 0\): loss is nan'
  expect_stderr 'restart 1 of 1: round 1 with 2 nodes, 4 workers, ready .* after the failure'
  expect_stderr 'rank 2 failed first: exit 7 .*round 1\)$'
  expect_stderr '^ +ranks 0, 1, 3 were stopped by ddprun \(SIGTERM'
  expect_stderr '^ +exit code 7; no restart left \(1 of 1 used\)$'
  expect_no_stderr 'because of it'
done
same_report a b
expect_no_process_left
