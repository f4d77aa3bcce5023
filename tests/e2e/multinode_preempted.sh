#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# SIGTERM to one node: its workers get the signal, it leaves, and the others go on when these have
# ended, without waiting for the lease and without a restart. The one rank that is left keeps its prefix.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 1:2 --rdzv_endpoint "$here:29500" --last_call_timeout 600 --heartbeat_interval 60
     --lease 600)
program='[ "$RANK" = 0 ] && { echo "alone: $WORLD_SIZE"; exec sleep 600; }
  trap "echo saved; exit 0" TERM; echo up
  while :; do sleep 600 & wait; done'

on stays start "${job[@]}" bash -c "$program"
on goes start "${job[@]}" --rdzv_conf is_host=false bash -c "$program"
wait_for_stdout '\] up'
kill -TERM "$ddprun"
finish
expect_exit 143
expect_stdout '\] saved$'
on stays
wait_for_event round_ready '"node_count":1,'
expect_stderr 'node [01] \(.*\) left: its ddprun got SIGTERM$'
wait_for_stdout '^\[0\] alone: 1$'
kill -INT "$ddprun"
finish
expect_exit 130
expect_no_process_left
