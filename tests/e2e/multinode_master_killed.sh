#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The agent that hosts the rendezvous is killed and started again: the others keep their workers for
# a lease, then join its next round. The counts of rounds and restarts continue.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
job=(--nnodes 2 --rdzv_endpoint "$here:29500" "${quick[@]}" --max_restarts 3)
program='
  [ "$TORCHELASTIC_RESTART_COUNT" = 0 ] && { [ "$RANK" = 1 ] && exit 1; exec sleep 600; }
  echo "restart $TORCHELASTIC_RESTART_COUNT"; until [ -e "$0/go" ]; do sleep 0.05; done'

on master start "${job[@]}" sh -c "$program" "$work"
on other start "${job[@]}" --rdzv_conf is_host=false sh -c "$program" "$work"
wait_for_event round_ready '"round":1,"restarts":1,'
on master wait_for_event round_ready '"round":1,"restarts":1,'
kill -KILL "$(agent_of)"
finish
expect_exit 137
on other wait_for_stderr "lost the master at $here:29500 .*; the workers run on for up to [0-9.]+ s \\(--lease\\)"
on master start "${job[@]}" sh -c "$program" "$work"
wait_for_event round_ready '"round":2,"restarts":1,'
on other wait_for_event round_ready '"round":2,"restarts":1,'
expect_stderr 'the master was restarted: this node joins again'
: >"$work/go"
for node in master other; do
  on "$node" finish
  expect_exit 0
done
expect_no_process_left
