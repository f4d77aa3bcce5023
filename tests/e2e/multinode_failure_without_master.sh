#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A rank that fails while the master is away is not forgiven: the next master hears of it, and it costs a
# restart, or ends the job on every node with the same report.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
at=(--rdzv_endpoint "$here:29500" --rdzv_id night --heartbeat_interval 0.5 --lease 30 --nnodes 2 --max_restarts 1)
program='until [ -e "$0/fail.$TORCHELASTIC_RESTART_COUNT" ]; do sleep 0.05; done
  [ "$RANK" = 1 ] && exit 9
  exec sleep 600'

fails_without_master() {  # ROUND, which has as many restarts
  on serve
  kill -KILL "$(agent_of)"
  finish
  for node in a b; do on "$node" wait_for_stderr "lost the master at $here:29500"; done
  : >"$work/fail.$1"
  on b wait_for_event worker_ended "\"round\":$1,"
  on serve start serve "${at[@]}"
}

on serve start serve "${at[@]}"
wait_for_event serving
on a start "${at[@]}" --node_rank 0 sh -c "$program" "$work"
on b start "${at[@]}" --node_rank 1 sh -c "$program" "$work"
for node in a b; do on "$node" wait_for_event round_ready '"round":0,"restarts":0,'; done
fails_without_master 0
for node in a b; do on "$node" wait_for_event round_ready '"round":1,"restarts":1,'; done
on b expect_stderr 'rank 1 failed first: exit 9 '

fails_without_master 1
for node in a b serve; do
  on "$node" finish
  expect_exit 9
  expect_stderr 'no restart left \(1 of 1 used\)'
done
same_report a b serve
for node in a b; do
  on "$node"
  ! grep -q '"round_ready".*"round":2,' "$events" || fail "a round began without a restart left"
done
expect_no_process_left
